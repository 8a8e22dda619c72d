"""Certificates and signed tokens for a test session, made by openssl; nothing of them outlives their folder."""

import base64
import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def missing_openssl() -> str | None:
    """One sentence where TLS cannot be tested on this machine."""
    return None if shutil.which("openssl") else "TLS tests need 'openssl' on PATH; install it (Debian: openssl)."


def _openssl(folder: Path, *words: str, data: bytes = b"") -> bytes:
    done = subprocess.run(["openssl", *words], cwd=folder, input=data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout


class Authority:
    """A CA of its own in `folder`/<name>.pem.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sorted(path.name for path in Path(Authority(Path(folder), "ca").issued("one")).parent.glob("one*"))
    ['one.crt', 'one.key', 'one.pem']
    """

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.folder, self.name = folder, name
        self.file = folder / f"{name}.pem"
        constraints = ("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
        subject = ("-subj", f"/CN={name}", "-days", "2", "-keyout", f"{name}.key", "-out", f"{name}.pem")
        _openssl(folder, "req", "-x509", *KEY, *subject, *constraints)

    def issued(self, name: str, subject: str = "", *, names: str = "IP:127.0.0.1", days: int = 2, secret: str = "") -> Path:
        """<name>.crt, <name>.key (encrypted with a secret) and <name>.pem, which holds key, certificate and CA.

        days: -1 = it has expired.  Gives the path of <name>.crt.
        """
        _openssl(
            self.folder, "req", *KEY, "-subj", subject or f"/CN={name}", "-keyout", f"{name}.raw", "-out", f"{name}.csr"
        )
        (self.folder / f"{name}.ext").write_text(f"subjectAltName={names}\nextendedKeyUsage=serverAuth,clientAuth\n")
        signed = ("-CA", f"{self.name}.pem", "-CAkey", f"{self.name}.key", "-CAcreateserial", "-extfile", f"{name}.ext")
        out = ("-days", str(days), "-out", f"{name}.crt")
        _openssl(self.folder, "x509", "-req", "-in", f"{name}.csr", *signed, *out)
        closed = ("-v2", "aes-256-cbc", "-passout", f"pass:{secret}") if secret else ("-nocrypt",)
        _openssl(self.folder, "pkcs8", "-topk8", *closed, "-in", f"{name}.raw", "-out", f"{name}.key")
        (self.folder / f"{name}.raw").unlink()
        parts = [self.folder / f"{name}.key", self.folder / f"{name}.crt", self.file]
        (self.folder / f"{name}.pem").write_text("".join(part.read_text() for part in parts))
        for private in (f"{name}.key", f"{name}.pem"):
            (self.folder / private).chmod(0o600)
        return self.folder / f"{name}.crt"


class Issuer:
    """Signs tokens; `keys` is the key set (JWKS) by which a broker checks them."""

    NAME, AUDIENCE = "https://issuer.test", "kafka"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        _openssl(folder, "genrsa", "-out", "issuer.key", "2048")
        modulus = _openssl(folder, "rsa", "-in", "issuer.key", "-noout", "-modulus").decode().strip().partition("=")[2]
        key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "one", "n": _coded(bytes.fromhex(modulus)), "e": "AQAB"}
        self.keys = folder / "keys.json"
        self.keys.write_text(json.dumps({"keys": [key]}))

    def token(self, subject: str, life: float = 3600.0, **claims: Any) -> str:
        """A JWT that ends in `life` seconds, which may be negative."""
        now = time.time()
        body = {"iss": self.NAME, "aud": self.AUDIENCE, "sub": subject, "iat": int(now + min(life, 0) - 60)}
        body |= {"exp": int(now + life), **claims}
        head = {"alg": "RS256", "kid": "one"}
        signed = ".".join(_coded(json.dumps(part).encode()) for part in (head, body))
        signature = _openssl(self.folder, "dgst", "-sha256", "-sign", "issuer.key", data=signed.encode())
        return f"{signed}.{_coded(signature)}"


def _coded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
