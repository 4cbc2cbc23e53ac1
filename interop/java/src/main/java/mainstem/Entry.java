package mainstem;

import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

/** Entry is a record as it passes between the test and the agent; time is in milliseconds. */
record Entry(int partition, long offset, byte[] key, byte[] value, List<Pair> headers, Long time) {
    record Pair(String name, byte[] value) {}

    static Entry of(ConsumerRecord<byte[], byte[]> r) {
        List<Pair> headers = new ArrayList<>();
        for (Header h : r.headers()) {
            headers.add(new Pair(h.key(), h.value()));
        }
        return new Entry(r.partition(), r.offset(), r.key(), r.value(), headers, r.timestamp());
    }

    ProducerRecord<byte[], byte[]> to(String topic) {
        List<Header> hs = new ArrayList<>();
        if (headers != null) {
            headers.forEach(h -> hs.add(new RecordHeader(h.name, h.value)));
        }
        return new ProducerRecord<>(topic, partition, time, key, value, hs);
    }
}
