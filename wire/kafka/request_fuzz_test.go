package kafka_test

import (
	"encoding/binary"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/wire/kafka"
)

// unanswered are requests that a fuzzed client may wait for longer than a test does:
// they wait for members, or for records.
var unanswered = map[int16]bool{int16(kmsg.Fetch): true, int16(kmsg.JoinGroup): true, int16(kmsg.SyncGroup): true}

// FuzzRequest sends random bytes as a request of any API and version: the server answers
// it or ends that connection, and then serves others as before.
func FuzzRequest(f *testing.F) {
	var panics testkit.Lines
	b := start(f, &kafka.Options{MaxRequest: 1 << 20, Logger: slog.New(slog.NewTextHandler(&panics, &slog.HandlerOptions{Level: slog.LevelError}))}, nil)
	for _, k := range ask[*kmsg.ApiVersionsResponse](b.raw(f), apiVersions(), 3).ApiKeys {
		for v := k.MinVersion; v <= k.MaxVersion; v++ {
			req := kmsg.RequestForKey(k.ApiKey)
			req.SetVersion(v)
			f.Add(k.ApiKey, v, req.AppendTo(nil))
			f.Add(k.ApiKey, v, []byte{0, 1, 'a', 0, 0, 0, 1, 0, 1, 'b', 0xff, 0xff, 0xff, 0xff, 0x0f})
		}
	}
	for _, lie := range lies() {
		f.Add(int16(binary.BigEndian.Uint16(lie)), int16(binary.BigEndian.Uint16(lie[2:])), lie[8:])
	}
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		head := binary.BigEndian.AppendUint16(nil, uint16(key))
		head = binary.BigEndian.AppendUint16(head, uint16(version))
		head = append(head, 0, 0, 0, 1, 0xff, 0xff) // correlation ID, and no client ID
		if req := kmsg.RequestForKey(key); req != nil {
			if req.SetVersion(version); req.IsFlexible() {
				head = append(head, 0)
			}
		}
		c := b.raw(t)
		frame := binary.BigEndian.AppendUint32(nil, uint32(len(head)+len(body)))
		if _, err := c.Write(append(append(frame, head...), body...)); err != nil {
			t.Fatal(err)
		}
		if !unanswered[key] {
			// A Produce request with acks=0 gets no answer either.
			patience := 10 * time.Second
			if key == int16(kmsg.Produce) {
				patience = 10 * time.Millisecond
			}
			_ = c.SetReadDeadline(time.Now().Add(patience))
			if _, err := c.Read(make([]byte, 1)); err != nil && err != io.EOF && patience > time.Second && isTimeout(err) {
				t.Errorf("%s version %d: neither an answer nor an end", kmsg.NameForKey(key), version)
			}
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		ask[*kmsg.ApiVersionsResponse](b.raw(t), apiVersions(), 3)
		if text := panics.String(); strings.Contains(text, "panicked") {
			t.Error(text)
		}
	})
}

func isTimeout(err error) bool {
	e, ok := err.(interface{ Timeout() bool })
	return ok && e.Timeout()
}
