package natskv_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/contrib/natskv"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testnats"
)

// A list whose index cannot load says why.
func TestListSaysWhyItsIndexDoesNotLoad(t *testing.T) {
	const limit = "maximum consumers limit"
	srv := testnats.NewServer(t, nil)
	ctx := t.Context()
	stream := must[jetstream.Stream](t)(js(t, srv.URL()).CreateStream(ctx, jetstream.StreamConfig{
		Name: "KV_b", Subjects: []string{"$KV.b.>"}, MaxMsgsPerSubject: 1, MaxConsumers: 1, AllowDirect: true, AllowRollup: true,
	}))
	must[jetstream.Consumer](t)(stream.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: "taken"}))
	b := table[string](t, open(t, srv.URL(), &natskv.Options{Timeout: 500 * time.Millisecond, MaxStale: natskv.MinMaxStale}), "b", nil)
	testkit.Eventually(t, "the list names the limit", func() bool {
		_, err := b.Count(ctx, nil)
		return errors.Is(err, errUnavailable) && strings.Contains(err.Error(), limit)
	})
	ended, end := context.WithCancel(ctx)
	end()
	testkit.Eventually(t, "a list whose context has ended names the limit", func() bool {
		_, err := b.Count(ended, nil)
		return errors.Is(err, mainstem.ErrCanceled) && strings.Contains(err.Error(), limit)
	})
	noError(t, stream.DeleteConsumer(ctx, "taken"))
	testkit.Eventually(t, "the index loads", func() bool {
		_, err := b.Count(ctx, nil)
		return err == nil
	})
}
