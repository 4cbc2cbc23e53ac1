package mainstem;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Consuming is a consumer of a topic as the member of a group, or else of its partition 0. */
final class Consuming implements Agent.Client {
    final KafkaConsumer<byte[], byte[]> consumer;

    Consuming(JsonNode args) {
        Map<String, Object> config = Agent.config(args);
        String topic = args.get("topic").asText();
        consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        if (config.containsKey("group.id")) {
            consumer.subscribe(List.of(topic));
            return;
        }
        TopicPartition p = new TopicPartition(topic, 0);
        consumer.assign(List.of(p));
        switch (args.get("start").asText()) {
            case "start" -> consumer.seekToBeginning(List.of(p));
            case "end" -> consumer.seekToEnd(List.of(p));
            default -> {
                OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(p, args.get("time").asLong())).get(p);
                consumer.seek(p, found.offset());
            }
        }
    }

    @Override
    public Object call(String op, JsonNode args) throws Exception {
        switch (op) {
            case "poll" -> {
                return poll();
            }
            case "commit" -> {
                try {
                    consumer.commitSync();
                } catch (CommitFailedException | RebalanceInProgressException e) {
                    // the partitions are another member's now, which reads again
                }
            }
            case "move" -> {
                Producing out = new Producing(args);
                try {
                    return Producing.move(args, this, out);
                } finally {
                    out.call("close", null);
                }
            }
            case "close" -> consumer.close(Duration.ofSeconds(5));
            default -> throw new IllegalArgumentException("a consumer cannot " + op);
        }
        return null;
    }

    /** Returns what is there within a tenth of a second. */
    List<Entry> poll() {
        List<Entry> all = new ArrayList<>();
        consumer.poll(Duration.ofMillis(100)).forEach(r -> all.add(Entry.of(r)));
        return all;
    }
}
