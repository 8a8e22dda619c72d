"""How long clients wait for an answer, in seconds unless the name ends in _MS; one constant for each kind of question."""

REQUEST_MS = 15_000  # any request of a worker's clients but joining a group; nothing else notices a connection that died
HANDSHAKE = 5.0  # connecting once, with TLS and credentials
TOKEN = 10.0  # an answer of [broker] token_url
REACHABLE = 2.0  # a plain TCP connection, to find out why no broker answers
ADMIN = 5.0  # an admin request: topics, offsets, groups, rights
GRANT = 10.0  # creating the rights of a job
LOOKUP = 10.0  # what a command asks about a topic's partitions and offsets before it reads them
SETTLED = 30.0  # committed offsets, while those of the last transaction do not count yet
