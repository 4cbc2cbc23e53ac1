package producer

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/crashtest"
	"github.com/mainstemdev/mainstem/internal/invariants"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/topic"
)

var powerSeeds = flag.Int("power.seeds", 0, "workloads in which TestPowerCut cuts the power, each about 400 times; 0 means 6, or 1 in a slow build")

const (
	powerDir        = "/data/log"
	powerPartitions = 2
	powerSteps      = 60
)

// powerStep is one request of a client, or one step of upkeep. do returns the answer.
type powerStep struct {
	name string
	do   func(*fixture) string
	// again says that a client repeats the request if it got no answer, and must then get the same
	// answer.
	again bool
	who   *powerClient // nil for upkeep
}

// TestPowerCut cuts the power before every file operation of a workload of producers and
// transactions. After the cut, all that was acknowledged is there, and the one request under way is
// there wholly or not at all, in all partitions and offsets. When it is repeated, it is there.
func TestPowerCut(t *testing.T) {
	total, seeds := 0, *powerSeeds
	if seeds == 0 {
		if seeds = 6; invariants.Enabled {
			seeds = 1
		}
	}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			c := &powerCut{t: t, seed: seed, steps: powerWorkload(seed), fs: vfs.NewCrashableMem()}
			c.reference()
			c.run()
			total += c.cuts
		})
	}
	t.Logf("%d power cuts", total)
	if total < 200*seeds && !t.Failed() {
		t.Errorf("only %d power cuts in %d workloads", total, seeds)
	}
}

// powerCut is one workload under which the power is cut.
type powerCut struct {
	t     *testing.T
	seed  uint64
	steps []powerStep
	fs    *vfs.MemFS

	answers []string // by step
	views   []string // by number of steps, the view after them

	opened       atomic.Bool
	acked, begun atomic.Int64

	mu     sync.Mutex
	failed bool
	cuts   int
}

func powerOptions(fs vfs.FS) *pebblelog.Options {
	return &pebblelog.Options{FS: fs, MemTableBytes: 64 << 10, CacheBytes: 1 << 20, MinFree: -1, SweepEvery: 1000 * time.Hour}
}

// newPower opens a manager on log.
func newPower(t testing.TB, log mainstem.Log) *fixture {
	f := &fixture{TB: fatal{t}, log: log, clock: new(testkit.Clock)}
	f.o = Options{Every: -1, Now: f.clock.Now, SnapshotEvery: 3}
	f.open()
	return f
}

// fatal is a test whose Fatal can be called from any goroutine: it panics.
type fatal struct{ testing.TB }

func (fatal) Context() context.Context          { return context.Background() }
func (fatal) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (fatal) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (f *fixture) powerTopic() *topic.Topic {
	f.Helper()
	t, err := f.catalog.Ensure(f.Context(), "t", topic.Spec{Partitions: powerPartitions})
	if err != nil {
		f.Fatal(err)
	}
	return t
}

// view returns all that consumers can see, as text.
func (f *fixture) view() string {
	f.Helper()
	t := f.powerTopic()
	var s strings.Builder
	for num := range int32(powerPartitions) {
		fmt.Fprintf(&s, "%d: %v, stable to %d\n", num, f.committed(t, num), f.stable(t, num))
	}
	all, err := t.Offsets("g").Load(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	fmt.Fprintf(&s, "offsets: %v\n", all)
	return s.String()
}

// reference runs the workload in memory, to get the answers and the views.
func (c *powerCut) reference() {
	log, err := pebblelog.OpenMemory(powerOptions(nil))
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close()
	f := newPower(c.t, log)
	defer f.close()
	c.views = append(c.views, f.view())
	for _, s := range c.steps {
		c.answers = append(c.answers, s.do(f))
		c.views = append(c.views, f.view())
	}
}

func (c *powerCut) run() {
	cut := &crashtest.CutFS{FS: c.fs, Before: c.cut}
	log, err := pebblelog.Open(powerDir, powerOptions(cut))
	if err != nil {
		c.t.Fatal(err)
	}
	f := newPower(c.t, log)
	f.powerTopic()
	c.opened.Store(true)
	for n, s := range c.steps {
		c.begun.Store(int64(n + 1))
		if got := s.do(f); got != c.answers[n] {
			c.t.Errorf("step %d (%s): got %s, want %s", n+1, s.name, got, c.answers[n])
		}
		c.acked.Store(int64(n + 1))
	}
	f.close()
	if err := log.Close(); err != nil {
		c.t.Fatal(err)
	}
	cut.Do(func(ops int) { c.cut(ops+1, "end") })
}

// cut checks the files that a power cut at this moment would leave, if none, all or a part of the
// unsynced data is kept.
func (c *powerCut) cut(n int, what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed || !c.opened.Load() {
		return
	}
	rng := rand.New(rand.NewPCG(c.seed, uint64(n)))
	for _, percent := range []int{0, 100, 1 + rng.IntN(99)} {
		after, acked, begun := c.crash(percent, rng)
		c.cuts++
		if err := c.look(after, acked, begun); err != nil {
			c.failed = true
			c.t.Errorf("power cut before operation %d (%s), %d%% of unsynced data kept, after step %d of %d begun: %v", n, what, percent, acked, begun, err)
			return
		}
	}
}

// crash returns the files that a power cut leaves, and how many steps were answered and begun
// before it. Background operations do not block steps: if more than one step may have run while the
// files were copied, it is not known which of them the files include, and they are copied again.
func (c *powerCut) crash(percent int, rng *rand.Rand) (after *vfs.MemFS, acked, begun int) {
	for {
		acked = int(c.acked.Load())
		after = c.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
		if begun = int(c.begun.Load()); begun <= acked+1 {
			return after, acked, begun
		}
	}
}

// look opens the files after a cut, and compares the view with those after acked and begun steps.
func (c *powerCut) look(fs *vfs.MemFS, acked, begun int) (err error) {
	log, err := pebblelog.Open(powerDir, powerOptions(fs))
	if err != nil {
		return err
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
		if cerr := log.Close(); err == nil {
			err = cerr
		}
	}()
	f := newPower(c.t, log)
	defer func() { f.m.stop(); f.catalog.Close() }()
	got := f.view()
	if got != c.views[acked] && got != c.views[begun] {
		return fmt.Errorf("got\n%swant that after step %d\n%sor %d\n%s", got, acked, c.views[acked], begun, c.views[begun])
	}
	// Clients repeat requests without an answer; the answer of the last request may have been lost
	// too.
	from := acked
	if acked > 0 && (begun == acked || c.steps[acked-1].who != c.steps[begun-1].who) {
		from--
	}
	for n := from; n < begun; n++ {
		if s := c.steps[n]; !s.again {
			return nil
		} else if answer := s.do(f); answer != c.answers[n] {
			return fmt.Errorf("step %d (%s) again: got %s, want %s", n+1, s.name, answer, c.answers[n])
		}
	}
	if got := f.view(); got != c.views[begun] {
		return fmt.Errorf("after the requests were repeated: got\n%swant\n%s", got, c.views[begun])
	}
	return nil
}

// powerWorkload makes the steps of a workload.
func powerWorkload(seed uint64) []powerStep {
	w := &powerMaker{rng: rand.New(rand.NewPCG(seed, 7))}
	w.clients = []*powerClient{{name: "v1"}, {name: "v2", implicit: true}, {}}
	for i, c := range w.clients {
		c.id = id{firstProducerID + int64(i), 0}
		w.init(c, id{-1, -1}, c.id, false)
	}
	for len(w.steps) < powerSteps {
		w.step()
	}
	return w.steps
}

// powerClient is the state of a client while the workload is made.
type powerClient struct {
	name     string // the transactional id, or none
	implicit bool
	id       id
	open     bool
	added    [powerPartitions]bool
	group    bool
	next     [powerPartitions]int32
}

type powerMaker struct {
	rng     *rand.Rand
	clients []*powerClient
	steps   []powerStep
	values  int
}

func (w *powerMaker) add(who *powerClient, name string, again bool, do func(*fixture) string) {
	w.steps = append(w.steps, powerStep{name: name, do: do, again: again, who: who})
}

func (w *powerMaker) step() {
	c := w.clients[w.rng.IntN(len(w.clients))]
	switch n := w.rng.IntN(20); {
	case n < 10:
		w.send(c)
	case n < 12 && c.name != "":
		w.offset(c)
	case n < 17 && c.open:
		w.end(c, w.rng.IntN(3) > 0)
	case n == 17:
		w.add(nil, "upkeep", true, func(f *fixture) string { f.upkeep(); return "" })
	case n == 18 && c.name != "" && !c.open:
		w.init(c, c.id, id{c.id.pid, c.id.epoch + 1}, true)
	case n == 19 && c.open:
		w.replace(c)
	}
}

func (c *powerClient) restart(as id) {
	*c = powerClient{name: c.name, implicit: c.implicit, id: as}
}

func (w *powerMaker) init(c *powerClient, as, becomes id, again bool) {
	name := c.name
	w.add(c, "init "+name, again, func(f *fixture) string {
		got, code := f.initAs(name, as, 5)
		return fmt.Sprintf("%v %d", got, code)
	})
	c.restart(becomes)
}

// replace starts another instance while a transaction is open.
func (w *powerMaker) replace(c *powerClient) {
	w.init(c, id{-1, -1}, id{c.id.pid, c.id.epoch + 1}, false)
	w.init(c, id{-1, -1}, id{c.id.pid, c.id.epoch + 1}, false)
}

// send produces to one partition or all.
func (w *powerMaker) send(c *powerClient) {
	from, to := w.rng.Int32N(powerPartitions), int32(powerPartitions)
	if w.rng.IntN(2) == 0 {
		to = from + 1
	} else {
		from = 0
	}
	as, name, implicit := c.id, c.name, c.implicit
	var batches [][]byte
	for num := from; num < to; num++ {
		if name != "" && !implicit && !c.added[num] {
			w.add(c, "add partition", true, func(f *fixture) string { return fmt.Sprint(f.add(name, as, "t", num)) })
			c.added[num] = true
		}
		w.values++
		batches = append(batches, batch(as, c.next[num], name != "", fmt.Sprintf("%s%d", name, w.values)))
		c.next[num]++
	}
	c.open = name != ""
	w.add(c, "send", true, func(f *fixture) string {
		t := f.powerTopic()
		var a []Append
		for i, b := range batches {
			a = append(a, Append{Topic: t, Partition: from + int32(i), Batch: b})
		}
		o := AppendOptions{Implicit: implicit}
		if name != "" {
			o.TransactionalID = &name
		}
		f.m.Append(f.Context(), o, a)
		var s strings.Builder
		for i := range a {
			fmt.Fprintf(&s, "%d at %d; ", a[i].Code, a[i].Base)
		}
		return s.String()
	})
}

func (w *powerMaker) offset(c *powerClient) {
	as, name, version := c.id, c.name, int16(5)
	if !c.implicit {
		version = 3
		if !c.group {
			w.add(c, "add group", true, func(f *fixture) string { return fmt.Sprint(f.addGroup(name, as, "g")) })
			c.group = true
		}
	}
	c.open = true
	num, next := w.rng.Int32N(powerPartitions), w.rng.Int64N(1000)
	w.add(c, "offset", true, func(f *fixture) string { return fmt.Sprint(f.offset(name, as, version, "g", "t", num, next)) })
}

func (w *powerMaker) end(c *powerClient, commit bool) {
	as, name, version := c.id, c.name, int16(3)
	if c.implicit {
		version = 5
	}
	w.add(c, fmt.Sprintf("end of %s, commit %v", name, commit), true, func(f *fixture) string {
		got, code := f.end(name, as, commit, version)
		return fmt.Sprintf("%v %d", got, code)
	})
	if c.implicit {
		c.restart(id{as.pid, as.epoch + 1})
		return
	}
	c.open, c.group, c.added = false, false, [powerPartitions]bool{}
}

// TestPowerWorkloads checks that a workload has enough batches and transactions.
func TestPowerWorkloads(t *testing.T) {
	c := &powerCut{t: t, steps: powerWorkload(0)}
	c.reference()
	count := map[string]int{}
	for n, s := range c.steps {
		kind, _, _ := strings.Cut(s.name, " ")
		switch {
		case kind == "init" && strings.HasSuffix(c.answers[n], fmt.Sprint(" ", kerr.ConcurrentTransactions.Code)):
			count["replaced"]++
		case kind == "send" && strings.Contains(c.answers[n], "0 at "):
			count["sent"]++
		case kind == "end" && strings.HasSuffix(c.answers[n], " 0"):
			count["ended"]++
		}
	}
	if count["sent"] < 10 || count["ended"] < 3 {
		t.Errorf("a workload of %d steps has %v", len(c.steps), count)
	}
}
