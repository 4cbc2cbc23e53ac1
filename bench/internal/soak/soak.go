package soak

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/kv"

	"github.com/mainstemdev/mainstem/bench/internal/machine"
)

// IdleRate is the low rate, in commits a second.
const IdleRate = 1000

// Options says what to do. Zero fields mean the defaults.
type Options struct {
	Dir        string // of the log, which must not be there yet
	Durability mainstem.Durability
	Writers    int           // 8
	Keys       int           // 1,000,000
	ValueBytes int           // 100
	Part       float64       // of the sustained rate; 0.8
	Rate       float64       // commits a second, instead of a part of the sustained rate
	Idle       time.Duration // how long the low rate is measured; 30s
	Find       time.Duration // how long the sustained rate is looked for; 1m
	For        time.Duration // of the steady load; 10m
	Every      time.Duration // a sample; 1s

	// Watch is told what is being done, and which part of it is done, about once an interval.
	Watch func(doing string, part float64)
}

func (o Options) withDefaults() Options {
	o.Writers, o.Keys, o.ValueBytes = cmp.Or(o.Writers, 8), cmp.Or(o.Keys, 1_000_000), cmp.Or(o.ValueBytes, 100)
	o.Part, o.Idle, o.Find = cmp.Or(o.Part, 0.8), cmp.Or(o.Idle, 30*time.Second), cmp.Or(o.Find, time.Minute)
	o.For, o.Every = cmp.Or(o.For, 10*time.Minute), cmp.Or(o.Every, time.Second)
	if o.Watch == nil {
		o.Watch = func(string, float64) {}
	}
	return o
}

// Check returns an error if o asks for what cannot be.
func (o Options) Check() error {
	o = o.withDefaults()
	switch {
	case o.Writers < 1 || o.Keys < 1 || o.ValueBytes < 1:
		return fmt.Errorf("%d writers, %d keys and values of %d bytes: want at least one of each", o.Writers, o.Keys, o.ValueBytes)
	case o.Part < 0 || o.Part > 1 || o.Rate < 0:
		return fmt.Errorf("%v of the sustained rate, or %v commits a second: want a part of at most 1, and a rate above 0", o.Part, o.Rate)
	case o.Idle <= 0 || o.Find <= 0 || o.For <= 0 || o.Every <= 0:
		return fmt.Errorf("times of %v, %v, %v and %v: want all above 0", o.Idle, o.Find, o.For, o.Every)
	}
	return nil
}

// Run measures. A context that ends under the steady load leaves a result that is marked as
// interrupted; before, it is an error.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	r := &Result{Started: time.Now(), Settings: Settings{
		Durability: o.Durability.String(), Writers: o.Writers, Keys: o.Keys, ValueBytes: o.ValueBytes,
		MemTableBytes: pebblelog.DefaultMemTableBytes, CacheBytes: pebblelog.DefaultCacheBytes, For: o.For, Every: o.Every,
	}}
	if err := o.fill(ctx); err != nil {
		return nil, err
	}
	r.Machine, r.Build = machine.Describe(o.Dir), machine.Build(ctx)
	t, err := o.open()
	if err != nil {
		return nil, err
	}
	return r, errors.Join(t.measure(ctx, r), t.log.Close())
}

// target is the log under load.
type target struct {
	Options
	log    *pebblelog.Log
	bucket *kv.Bucket[[]byte]
}

func (o Options) open() (*target, error) {
	log, err := pebblelog.Open(o.Dir, &pebblelog.Options{Durability: o.Durability})
	if err != nil {
		return nil, err
	}
	bucket, err := kv.Open[[]byte](log, "soak", nil)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return &target{o, log, bucket}, nil
}

// fill puts every key once, and closes the log.
func (o Options) fill(ctx context.Context) (err error) {
	t, err := o.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.log.Close()) }()
	const each = 1000
	random := newValues(0, o.ValueBytes)
	for i := 0; i < o.Keys; i += each {
		b := mainstem.NewBatch()
		b.Durability = mainstem.OS
		for k := i; k < min(i+each, o.Keys); k++ {
			t.bucket.PutTo(b, key(k), bytes.Clone(random.next())) // the batch borrows it
		}
		if _, err := t.log.Commit(ctx, b); err != nil {
			return err
		}
		o.Watch("put all keys", float64(i)/float64(o.Keys))
	}
	return nil
}

func key(i int) string { return fmt.Sprintf("key-%09d", i) }

func (t *target) measure(ctx context.Context, r *Result) error {
	idle, err := t.steady(ctx, "low rate", IdleRate, t.Idle, nil)
	if err != nil {
		return err
	}
	r.Idle = idle.Latency
	if r.Rate = t.Rate; r.Rate == 0 {
		if r.Sustained, err = t.sustained(ctx); err != nil {
			return err
		}
		r.Settings.Part = t.Part
		r.Rate = t.Part * r.Sustained
	}
	before, spent := t.log.Stats().Bytes, processorTime()
	s := newSampler(t)
	load, err := t.steady(ctx, "steady load", r.Rate, t.For, s)
	r.Load, r.Missed = load.Latency, load.missed
	r.Series, r.CPU, r.Written = s.series, processorTime()-spent, t.log.Stats().Bytes-before
	if ctx.Err() != nil {
		r.Interrupted = true
		return nil
	}
	return err
}

// sustained returns the commits a second of writers that wait for nothing, by the second half
// of the time: then tables are frozen and compacted at the rate at which they are filled.
func (t *target) sustained(ctx context.Context) (float64, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var done atomic.Int64
	var wg sync.WaitGroup
	begin := time.Now()
	for w := range t.Writers {
		wg.Go(func() {
			put := t.writer(ctx, w)
			for time.Since(begin) < t.Find {
				if err := put(); err != nil {
					stop(err)
					return
				}
				done.Add(1)
			}
		})
	}
	var half int64
	var since time.Duration
	t.Watch("sustained rate", 0)
	for ctx.Err() == nil && time.Since(begin) < t.Find {
		if half == 0 && time.Since(begin) >= t.Find/2 {
			half, since = done.Load(), time.Since(begin)
		}
		t.Watch("sustained rate", min(float64(time.Since(begin))/float64(t.Find), 1))
		pass(ctx, min(t.Every, t.Find/20))
	}
	wg.Wait()
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	return float64(done.Load()-half) / (time.Since(begin) - since).Seconds(), nil
}

// outcome is what came of a load.
type outcome struct {
	Latency
	missed int64 // commits that were to begin, and could not
}

// steady makes rate commits a second for a time, and for a tenth of it more if it is behind.
func (t *target) steady(ctx context.Context, doing string, rate float64, long time.Duration, s *sampler) (outcome, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	interval := time.Duration(float64(t.Writers) / rate * float64(time.Second))
	recorders := make([]*recorder, t.Writers)
	begin := time.Now().Add(10 * time.Millisecond)
	var wg sync.WaitGroup
	var missed atomic.Int64
	for w := range recorders {
		recorders[w] = newRecorder()
		wg.Go(func() {
			first := begin.Add(interval * time.Duration(w) / time.Duration(t.Writers))
			plan := schedule{begin: first, end: begin.Add(long), every: max(interval, 1), grace: long / 10}
			n, err := plan.follow(ctx, recorders[w], t.writer(ctx, w))
			if missed.Add(n); err != nil {
				stop(err)
			}
		})
	}
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	all, timer := newHistogram(), time.Duration(0)
	tick := time.NewTicker(t.Every)
	defer tick.Stop()
	for running := true; running; {
		select {
		case <-tick.C:
		case <-ended:
			running = false
		}
		some, late := newHistogram(), time.Duration(0)
		for _, r := range recorders {
			late = max(late, r.take(some))
		}
		all.Merge(some)
		timer = max(timer, late)
		if s != nil && (running || some.TotalCount() > 0) {
			s.take(time.Since(begin), latencyOf(some, late))
		}
		t.Watch(doing, min(float64(time.Since(begin))/float64(long), 1))
	}
	return outcome{latencyOf(all, timer), missed.Load()}, context.Cause(ctx)
}

// writer returns what one writer calls to commit.
func (t *target) writer(ctx context.Context, w int) func() error {
	values := newValues(uint64(w)+1, t.ValueBytes)
	return func() error {
		_, err := t.bucket.Put(ctx, key(values.random.IntN(t.Keys)), values.next())
		return err
	}
}

// values makes values that are half as long when they are compressed.
type values struct {
	random *rand.Rand
	value  []byte
}

func newValues(seed uint64, n int) *values {
	return &values{rand.New(rand.NewPCG(seed, 7)), make([]byte, n)}
}

const digits = "0123456789abcdef"

// next returns a value, which is overwritten by the next call.
func (v *values) next() []byte {
	for i := 0; i < len(v.value); i += 16 {
		bits := v.random.Uint64()
		for j := i; j < min(i+16, len(v.value)); j++ {
			v.value[j] = digits[bits&15]
			bits >>= 4
		}
	}
	return v.value
}

func pass(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
