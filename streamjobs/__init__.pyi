from streamjobs.notebook.job import Job as Job

__version__: str

def install_line(extra: str) -> str: ...
