// Kafka Streams: a processor with a store in RocksDB behind a cache, a commit a second.  BOOTSTRAP INPUT OUTPUT GROUP FOLDER

import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

public class Streams {
    static final int CELLS = 1024, COUNT_AT = 8 * CELLS, SIZE = 8 * CELLS + 16;
    static final ObjectMapper JSON = new ObjectMapper();

    public static class Sample {
        public double[] x;
        public double ts;
        public String label;
    }

    public static class Answer {
        public double[] y;
        public double ts;
    }

    static class Simple implements Processor<byte[], byte[], byte[], byte[]> {
        private ProcessorContext<byte[], byte[]> context;
        private KeyValueStore<byte[], byte[]> store;

        @Override
        public void init(ProcessorContext<byte[], byte[]> given) {
            context = given;
            store = given.getStateStore("states");
        }

        @Override
        public void process(Record<byte[], byte[]> record) {
            try {
                Sample sample = JSON.readValue(record.value(), Sample.class);
                byte[] held = store.get(record.key());
                byte[] bytes = held == null ? new byte[SIZE] : held.clone();
                ByteBuffer state = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
                long count = state.getLong(COUNT_AT) + 1;
                int at = (int) (8 * (count % CELLS));
                double total = state.getDouble(at) + sample.x[0];
                state.putDouble(at, total);
                state.putLong(COUNT_AT, count);
                store.put(record.key(), bytes);
                Answer answer = new Answer();
                answer.y = new double[10];
                answer.y[0] = count;
                answer.y[1] = total;
                System.arraycopy(sample.x, 2, answer.y, 2, 8);
                answer.ts = sample.ts;
                var from = context.recordMetadata().orElseThrow();
                String id = from.topic() + "-" + from.partition() + "-" + from.offset();
                RecordHeaders headers = new RecordHeaders();
                headers.add("streamjobs-id", id.getBytes(StandardCharsets.UTF_8));
                context.forward(new Record<>(record.key(), JSON.writeValueAsBytes(answer), Math.round(sample.ts * 1000), headers));
            } catch (java.io.IOException error) {
                throw new RuntimeException(error);
            }
        }
    }

    public static void main(String[] words) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, words[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, words[3]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, words[4]);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 1000);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 256L << 20);
        settings.put("auto.offset.reset", "earliest");
        settings.put("max.poll.records", 5000);
        settings.put("producer.linger.ms", 1);
        settings.put("producer.batch.size", 1 << 20);
        settings.put("producer.acks", "all");
        Topology topology = new Topology();
        topology.addSource("in", new ByteArrayDeserializer(), new ByteArrayDeserializer(), words[1]);
        topology.addProcessor("simple", Simple::new, "in");
        topology.addStateStore(
                Stores.keyValueStoreBuilder(
                                Stores.persistentKeyValueStore("states"), Serdes.ByteArray(), Serdes.ByteArray())
                        .withCachingEnabled(),
                "simple");
        topology.addSink("out", words[2], new ByteArraySerializer(), new ByteArraySerializer(),
                (topic, key, value, partitions) -> java.util.Optional.of(java.util.Set.of(
                        Integer.parseInt(new String(key, StandardCharsets.UTF_8).substring(4)) % partitions)), "simple");
        KafkaStreams streams = new KafkaStreams(topology, settings);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }
}
