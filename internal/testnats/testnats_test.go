package testnats_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mainstemdev/mainstem/internal/testnats"
)

func connect(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	return testnats.JetStream(t, testnats.Connect(t, url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond)))
}

// publish retries until the message is acknowledged. The stream keeps one of all tries: each subject
// is published to once.
func publish(t *testing.T, js jetstream.JetStream, subject string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testnats.Patience)
	defer cancel()
	for {
		try, stop := context.WithTimeout(ctx, time.Second)
		_, err := js.Publish(try, subject, nil, jetstream.WithMsgID(subject))
		stop()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("publish %s: %v", subject, err)
		}
	}
}

// createStream retries until the stream is there: a cluster has no leader for a while when its nodes have
// heard too little of each other.
func createStream(t *testing.T, js jetstream.JetStream, c jetstream.StreamConfig) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testnats.Patience)
	defer cancel()
	for {
		try, stop := context.WithTimeout(ctx, 2*time.Second)
		_, err := js.CreateStream(try, c)
		if err == nil {
			stop()
			return
		}
		<-try.Done() // some errors come at once
		stop()
		if ctx.Err() != nil {
			t.Fatalf("create stream %s: %v", c.Name, err)
		}
	}
}

func count(t *testing.T, js jetstream.JetStream, stream string) uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testnats.Patience)
	defer cancel()
	s, err := js.Stream(ctx, stream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

func TestServerKeepsItsDataOverARestart(t *testing.T) {
	s := testnats.NewServer(t, &testnats.Options{SyncAlways: true})
	js := connect(t, s.URL())
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}); err != nil {
		t.Fatal(err)
	}
	publish(t, js, "s.1")
	url := s.URL()
	s.Stop()
	if s.Running() != nil {
		t.Fatal("a stopped server is running")
	}
	s.Start()
	if s.URL() != url {
		t.Fatalf("the address changed from %s to %s", url, s.URL())
	}
	publish(t, js, "s.2")
	if n := count(t, js, "S"); n != 2 {
		t.Fatalf("the stream holds %d messages, want 2", n)
	}
}

func TestClusterSurvivesItsLeader(t *testing.T) {
	c := testnats.NewCluster(t, 3, nil)
	js := connect(t, c.URL())
	createStream(t, js, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Replicas: 3})
	publish(t, js, "s.1")
	first := c.Leader("S")
	first.Stop()
	publish(t, js, "s.2")
	if second := c.Leader("S"); second == first {
		t.Fatal("the stopped node still leads")
	}
	first.Start()
	c.WaitHealthy("S")
	before := c.Leader("S")
	c.StepDown("S")
	publish(t, js, "s.3")
	if n := count(t, js, "S"); n != 3 {
		t.Fatalf("the stream holds %d messages, want 3 (leader was %s)", n, before.Name())
	}
}
