"""Files of the development broker: Maven's list of jars, its logging, and where they are cached."""
