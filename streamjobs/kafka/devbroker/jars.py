"""Apache Kafka's jars in the cache folder, and the Java command line that runs them.

Maven copies 46 jars (43 MB) once to $STREAMJOBS_CACHE or ~/.cache/streamjobs, all or nothing. Later runs find them there.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from streamjobs.errors import SetupError

KAFKA_VERSION = "4.1.1"
SCALA_VERSION = "2.13"
LOG4J_VERSION = "2.24.3"  # the one Kafka ships
JAVA_VERSION = 17  # at least

OWN_FOLDER = "set STREAMJOBS_CACHE to a folder that this user can write to."
FILES = Path(__file__).parent
HEAP = "-Xms128m -Xmx320m -Xss512k -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:MaxDirectMemorySize=64m"

Progress = Callable[[str], None]


def quiet(_: str) -> None:
    """A progress callback that shows nothing."""


def cache_folder() -> Path:
    """The folder of what is downloaded or made once, outside any checkout."""
    try:
        return Path(os.environ.get("STREAMJOBS_CACHE") or Path.home() / ".cache" / "streamjobs")
    except RuntimeError:
        raise SetupError(f"broker: this user has no home folder; {OWN_FOLDER}") from None


def home() -> Path:
    return cache_folder() / f"kafka-{KAFKA_VERSION}"


def missing_tool() -> str | None:
    """One sentence on what this machine lacks for a broker, or None."""
    need = f"broker: a real Kafka needs Java {JAVA_VERSION} or newer and Maven"
    if shutil.which("java") is None:
        return f"{need}, but 'java' is not on PATH; install a JDK {JAVA_VERSION} (Debian: openjdk-17-jdk-headless)."
    text = _java_version()
    version = re.search(r'version "(\d+)', text)
    if not version or int(version[1]) < JAVA_VERSION:
        got = text.splitlines()[0] if text else "nothing"
        return f"{need}, but 'java -version' prints {got}; put a JDK {JAVA_VERSION} first on PATH."
    if not (home() / "libs").is_dir() and shutil.which("mvn") is None:
        return f"{need}, but 'mvn' is not on PATH; install Maven (Debian: maven)."
    return None


def fetch_jars(progress: Progress = quiet) -> Path:
    """The folder with Kafka's jars; Maven copies them where they are missing.

    Raises SetupError where Java or Maven is missing or the download fails.
    """
    if problem := missing_tool():
        raise SetupError(problem)
    libs = home() / "libs"
    with locked():
        if libs.is_dir():  # perhaps copied by the process that held the lock
            return libs
        progress(f"Apache Kafka {KAFKA_VERSION}: copying its jars with Maven (43 MB, once) to {libs}")
        part = Path(tempfile.mkdtemp(prefix="libs-", dir=home()))
        try:
            command = [
                *("mvn", "-q", "-B", "-f", str(FILES / "pom.xml"), "dependency:copy-dependencies"),
                *("-DincludeScope=runtime", f"-DoutputDirectory={part}", f"-Dkafka.version={KAFKA_VERSION}"),
                *(f"-Dscala.version={SCALA_VERSION}", f"-Dlog4j.version={LOG4J_VERSION}"),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode or not list(part.glob(f"kafka_*-{KAFKA_VERSION}.jar")):
                output = next((line for line in done.stdout.splitlines() if "ERROR" in line), done.stderr.strip()[-300:])
                raise SetupError(
                    f"broker: Maven could not copy Apache Kafka {KAFKA_VERSION}: {output.strip()} "
                    "Check the network or the mirror in ~/.m2/settings.xml, then run the command again."
                )
            part.chmod(0o755)
            part.rename(libs)  # complete or missing: a failed download leaves nothing behind
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return libs


def archive() -> Path:
    """The path of the class data archive, which halves the start of a node and fits one Java and one class path."""
    name = hashlib.sha256(f"{_java_version()} {home()}".encode()).hexdigest()[:12]
    return home() / f"classes-{name}.jsa"


def java_command(folder: Path, *options: str) -> list[str]:
    """The Java command with Kafka's class path; temporary files go into `folder`, so that removing it leaves nothing."""
    return [
        *("java", *HEAP.split(), "-XX:-UsePerfData", f"-Djava.io.tmpdir={folder}"),
        *(f"-Dlog4j2.configurationFile=file:{FILES / 'log4j2.xml'}", *options, "-cp", f"{home() / 'libs'}/*"),
    ]


@contextmanager
def locked() -> Iterator[None]:
    """Lock the cache folder: one process at a time works on it, the others wait and find the work done."""
    try:
        home().mkdir(parents=True, exist_ok=True)
        lock = (home() / "lock").open("w")
    except OSError as error:
        raise SetupError(f"broker: {home()} cannot be used ({error.strerror}); {OWN_FOLDER}") from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _java_version() -> str:
    """What Java prints about itself, without the options it takes from the environment, which it names first."""
    printed = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    return "\n".join(line for line in printed.strip().splitlines() if not line.startswith("Picked up "))
