package kafkaserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/lease"
)

// The lease to serve Kafka.
//
// The Kafka server keeps the members of groups and the open transactions in memory, so
// a log may have only one: two of them would each assign all partitions of a group. On a
// log that several processes can open, the server is therefore the member "kafka" of the
// bucket "mainstem/duties" (package lease):
//
//	start       take the lease. If another server holds it: wait for its TTL, and take the
//	            lease if the holder is silent; fail with Exists if it renews the lease
//	lease lost  close the listener and all connections, take the lease again, serve again
//	stop        close the listener and all connections, then remove the member, so that the
//	            next server need not wait for the TTL
//
// The lease decides which server may serve. It does not fence writes: a commit that was sent
// before the lease was lost, and that the log delays, may be stored after another server has
// begun to serve.

const (
	dutyBucket = "mainstem/duties"
	kafkaDuty  = "kafka"
	// leaveTimeout bounds the time to release the lease after the caller's context has ended. If
	// that fails, the next server waits for the TTL.
	leaveTimeout = 2 * time.Second
)

// takeLease takes the lease to serve Kafka. It returns nil for a log that only this
// process can open, which needs none. While another server holds the lease, it waits for at
// most the TTL of that lease; if the holder is alive, the error is Exists and names it.
func (k *Component) takeLease(ctx context.Context) (*lease.Keeper, error) {
	if k.host.Exclusive {
		return nil, nil
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	address := cmp.Or(k.Config.Advertise, k.Config.Listen)
	self := lease.Member{
		Name: kafkaDuty, Start: uint64(time.Now().UnixNano()),
		Address: fmt.Sprintf("%s (host %s, process %d)", address, host, os.Getpid()),
	}
	keeper, err := lease.Open(ctx, k.host.Log, self, &lease.Options{Bucket: dutyBucket, TTL: k.Config.Lease, Logger: k.host.Logger})
	if errors.Is(err, lease.ErrHeld) {
		return nil, mainstem.Errorf(mainstem.KindExists, "serve Kafka", "another server does on this log: %w", err).
			WithHint("a log has one server for Kafka clients: turn Kafka off here with --kafka '', or stop the other one")
	}
	if err != nil {
		return nil, fmt.Errorf("take the lease to serve Kafka: %w", err)
	}
	return keeper, nil
}

// watchLease runs in a goroutine from Start until Stop cancels ctx. It stops serving when the
// lease is lost, and serves again when it is back. s is the session in which Start has begun to
// serve.
func (k *Component) watchLease(ctx context.Context, s *lease.Session) {
	for {
		select {
		case <-s.Done():
		case <-ctx.Done():
			return
		}
		k.host.Logger.Error("the lease to serve Kafka is lost: Kafka clients are disconnected until it is back", "kafka", k.Addr().String())
		now, cut := context.WithCancel(ctx)
		cut()
		if err := k.close(now); err != nil && !errors.Is(err, mainstem.ErrCanceled) {
			k.host.Logger.Warn("stopping the Kafka server failed", "error", err)
		}
		if s = k.serveAgain(ctx); s == nil {
			return
		}
	}
}

// serveAgain waits for the lease and serves Kafka, on the same address as before. It tries
// again if that fails. It returns the session of the lease, or nil when ctx has ended.
func (k *Component) serveAgain(ctx context.Context) *lease.Session {
	for {
		s, err := k.lease.Session(ctx)
		if err != nil {
			return nil
		}
		l, err := listen(ctx, k.Addr().String())
		if err == nil {
			err = k.serve(ctx, l)
		}
		if err == nil {
			k.host.Logger.Info("the lease to serve Kafka is back: Kafka clients are served", "kafka", k.Addr().String())
			return s
		}
		if ctx.Err() == nil {
			k.host.Logger.Error("Kafka is not served, though this server has the lease", "error", err)
		}
		if !backoff.Sleep(ctx, k.lease.TTL()/5) {
			return nil
		}
	}
}

// release releases the lease, if there is one. It has until leaveTimeout after the end of ctx.
func (k *Component) release(ctx context.Context) error {
	if k.lease == nil {
		return nil
	}
	leaving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		backoff.Sleep(leaving, leaveTimeout)
		cancel()
	})()
	return k.lease.Close(leaving)
}
