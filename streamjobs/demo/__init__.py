"""The demo: real wrist recordings played through a broker and the real worker, shown live."""
