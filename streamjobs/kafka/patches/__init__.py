"""What aiokafka 0.14.0 gets wrong for us, corrected in its own classes."""
