package kafka

import (
	"context"
	"testing"
	"time"
)

// security produces and consumes over TLS with each mechanism, and knocks with a
// wrong password.
func security(e *Env) {
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		e.T.Run(mechanism, func(t *testing.T) {
			at := *e.Secure
			e := &Env{T: t, Library: e.Library, Run: e.Run, ctx: e.ctx}
			at.Mechanism = mechanism
			topic := e.name(mechanism)
			a, err := e.Library.New(at).Admin(e.ctx)
			e.must(err, "open an admin client")
			e.must(a.CreateTopic(e.ctx, topic, 1, nil), "create a topic")
			e.closed(a)
			p, err := e.Library.New(at).Producer(e.ctx, ProducerOptions{Topic: topic, Acks: AcksAll, Codec: "none"})
			e.must(err, "open a producer")
			e.must(p.Send(e.ctx, numbered("v", 10)), "send")
			e.closed(p)
			c, err := e.Library.New(at).Consumer(e.ctx, ConsumerOptions{Topic: topic, Start: AtStart})
			e.must(err, "open a consumer")
			e.sameValues(e.read(c, 10), numbered("v", 10))
			e.closed(c)

			at.Password += "?"
			ctx, cancel := context.WithTimeout(e.ctx, 3*time.Second) // some libraries try again and again
			defer cancel()
			a, err = e.Library.New(at).Admin(ctx)
			if err == nil {
				err = a.CreateTopic(ctx, topic+"-wrong", 1, nil)
				_ = a.Close()
			}
			if err == nil {
				e.Error("a wrong password was good enough")
			}
		})
	}
}
