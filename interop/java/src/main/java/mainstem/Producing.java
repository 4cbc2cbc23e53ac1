package mainstem;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Producing is a producer of one topic. */
final class Producing implements Agent.Client {
    private final String topic;
    private final KafkaProducer<byte[], byte[]> producer;

    Producing(JsonNode args) {
        topic = args.get("topic").asText();
        Map<String, Object> config = Agent.config(args);
        producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
        if (config.containsKey("transactional.id")) {
            try {
                producer.initTransactions();
            } catch (RuntimeException e) {
                producer.close(Duration.ZERO);
                throw e;
            }
        }
    }

    @Override
    public Object call(String op, JsonNode args) throws Exception {
        switch (op) {
            case "send" -> {
                return send(Agent.JSON.treeToValue(args.get("records"), Entry[].class));
            }
            case "begin" -> producer.beginTransaction();
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "close" -> producer.close(Duration.ofSeconds(5));
            default -> throw new IllegalArgumentException("a producer cannot " + op);
        }
        return null;
    }

    /** Sends without waiting between records, and returns the offsets; -1 with acks=0. */
    private List<Long> send(Entry... records) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (Entry e : records) {
            sent.add(producer.send(e.to(topic)));
        }
        producer.flush();
        List<Long> offsets = new ArrayList<>();
        for (Future<RecordMetadata> f : sent) {
            offsets.add(f.get().offset());
        }
        return offsets;
    }

    /** A send that waits for a broker ends when the producer is closed. */
    @Override
    public void interrupt() {
        producer.close(Duration.ofSeconds(1));
    }

    /** Moves n records of a consumer in one transaction with the consumer's offsets. */
    static List<Entry> move(JsonNode args, Consuming in, Producing out) throws Exception {
        List<Entry> moved = new ArrayList<>();
        out.producer.beginTransaction();
        while (moved.size() < args.get("n").asInt()) {
            moved.addAll(in.poll());
        }
        out.send(moved.toArray(new Entry[0]));
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (TopicPartition p : in.consumer.assignment()) {
            offsets.put(p, new OffsetAndMetadata(in.consumer.position(p)));
        }
        out.producer.sendOffsetsToTransaction(offsets, in.consumer.groupMetadata());
        if (args.get("commit").asBoolean()) {
            out.producer.commitTransaction();
        } else {
            out.producer.abortTransaction();
        }
        return moved;
    }
}
