"""The pages say what is there, what is there is in the pages, and every link leads somewhere."""
