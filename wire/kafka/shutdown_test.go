package kafka_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
)

// A shutdown answers requests that wait and ends connections. It may be repeated.
func TestShutdownAnswersWhatWaits(t *testing.T) {
	b := start(t, nil, nil)
	b.topic(t, "t", 1)
	idle, waiting := b.raw(t), b.raw(t)
	ask[*kmsg.ApiVersionsResponse](idle, apiVersions(), 3)
	req := fetchOf("t", 0)
	req.MaxWaitMillis = 60_000
	id := waiting.send(req, 12)
	ask[*kmsg.ApiVersionsResponse](b.raw(t), apiVersions(), 3)
	if err := b.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = waiting.SetReadDeadline(time.Now().Add(30 * time.Second))
	var first [1]byte
	if _, err := io.ReadFull(waiting, first[:]); err == nil { // it was being served, so it has its answer
		rest := make([]byte, 7)
		if _, err := io.ReadFull(waiting, rest); err != nil || int32(rest[6]) != id {
			t.Errorf("answer %x, %v", rest, err)
		}
	}
	idle.closed()
	if err := b.Shutdown(t.Context()); err != nil {
		t.Errorf("shutting down again: %v", err)
	}
}

func TestServeAfterShutdown(t *testing.T) {
	b := start(t, nil, nil)
	if err := b.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := b.Serve(listen(t), nil); mainstem.KindOf(err) != mainstem.KindClosed {
		t.Errorf("error %v, want closed", err)
	}
}
