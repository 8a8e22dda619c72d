"""Each family of learners against its slow reference and its known behaviour."""
