"""Bytewax: a stateful map with recovery, an epoch a second.  BOOTSTRAP INPUT OUTPUT GROUP FOLDER"""

import sys
from datetime import timedelta
from pathlib import Path

import bytewax.operators as op
from bytewax._bytewax import cli_main
from bytewax.connectors.kafka import KafkaSinkMessage, KafkaSourceMessage
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow
from bytewax.recovery import RecoveryConfig, init_db_dir
from simple_job import SIZE, apply

bootstrap, source, sink, _, folder = sys.argv[1:]


def answer(state: bytearray | None, message: KafkaSourceMessage) -> tuple[bytearray, KafkaSinkMessage]:
    state = bytearray(SIZE) if state is None else state
    value, at = apply(state, message.value)
    headers = [("streamjobs-id", f"{source}-{message.partition}-{message.offset}".encode())]
    return state, KafkaSinkMessage(message.key, value, headers=headers, timestamp=round(at * 1000))


flow = Dataflow("simple")
came = kop.input("in", flow, brokers=[bootstrap], topics=[source], tail=True, batch_size=2_000)
keyed = op.key_on("key", came.oks, lambda message: message.key.decode())
made = op.stateful_map("answer", keyed, answer)
kop.output("out", op.key_rm("bare", made), brokers=[bootstrap], topic=sink, add_config={"linger.ms": "1"})

store = Path(folder) / "recovery"
store.mkdir(parents=True)
init_db_dir(store, 1)
recovery = RecoveryConfig(str(store), backup_interval=timedelta(0))
cli_main(flow, epoch_interval=timedelta(seconds=1), recovery_config=recovery)
