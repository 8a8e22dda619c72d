"""The demo: plays real wrist recordings through a broker and the real worker, and shows the results live."""
