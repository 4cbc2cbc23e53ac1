package remotelog_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/engine/remotelog"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/wire/rpc"
)

// childEnv holds the directory that a process of this test binary is to serve until it is killed.
const childEnv = "MAINSTEM_REMOTELOG_CHILD"

// child serves the log in a directory, and says where. It ends with the process that started it.
func child(dir string, out io.Writer) error {
	log, err := pebblelog.Open(dir, &pebblelog.Options{Durability: mainstem.OS})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	path, h := rpc.NewHandler(log, nil)
	mux := http.NewServeMux()
	mux.Handle(path, h)
	mux.Handle(rpc.SessionPath, h)
	server := &http.Server{Handler: mux} //nolint:gosec // rpc.ConfigureServer bounds its times
	rpc.ConfigureServer(server)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the other process has ended
		_ = server.Close()
	}()
	if _, err := fmt.Fprintln(out, listener.Addr()); err != nil {
		return err
	}
	return server.Serve(listener)
}

// startChild serves the log in dir from another process, at an address, until kill is called.
func startChild(t *testing.T, dir string) (address string, kill func()) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env, cmd.Stderr = append(os.Environ(), childEnv+"="+dir), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = in.Close()
		_ = cmd.Wait() // it was killed
	})
	t.Cleanup(kill)
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatalf("the server has not started: %v", lines.Err())
	}
	return lines.Text(), kill
}

// writers commit batches without IDs through one Log, and note what became of them.
type writers struct {
	log   mainstem.Log
	acked atomic.Int64 // commits with a receipt
	stop  atomic.Bool

	mu struct {
		sync.Mutex
		appended map[string]mainstem.Version // by value, the version in its receipt
		counted  int
	}
}

// run writes by turns a record to a key of all and one of the writer's own, and one more to a counter.
func (w *writers) run(t *testing.T, name string) {
	for i := 1; !w.stop.Load() && !t.Failed(); i++ {
		b, value := mainstem.NewBatch(), fmt.Sprintf("%s/%d", name, i)
		b.Put("all", []byte("all"), []byte(value))
		b.Put("all", []byte(name), nil)
		r, err := w.log.Commit(t.Context(), b)
		for notWritten(err) {
			r, err = w.log.Commit(t.Context(), b)
		}
		if err != nil || r.Duplicate || len(r.Versions) != 2 || r.Versions[1] != mainstem.Version(i) || r.Last != r.First+1 {
			t.Errorf("commit %s: receipt %+v, %v", value, r, err)
			return
		}
		counted := w.count(t)
		w.mu.Lock()
		w.mu.appended[value] = r.Versions[0]
		w.mu.counted += counted
		w.mu.Unlock()
		w.acked.Add(1)
	}
}

// count tries once to add one to the counter, which others do too.
func (w *writers) count(t *testing.T) (added int) {
	r, err := w.log.Get(t.Context(), "n", []byte("n"))
	for errors.Is(err, mainstem.ErrUnavailable) {
		r, err = w.log.Get(t.Context(), "n", []byte("n"))
	}
	if err != nil {
		t.Errorf("read the counter: %v", err)
		return 0
	}
	n, _ := strconv.Atoi(string(r.Value))
	b := mainstem.NewBatch()
	b.IfVersion("n", []byte("n"), r.Version)
	b.Put("n", []byte("n"), []byte(strconv.Itoa(n+1)))
	got, err := w.log.Commit(t.Context(), b)
	for notWritten(err) {
		got, err = w.log.Commit(t.Context(), b)
	}
	if err == nil && got.Versions[0] == r.Version+1 {
		return 1
	}
	var e *mainstem.Error
	if !errors.As(err, &e) || e.Kind != mainstem.KindConflict || e.Outcome != mainstem.NotWritten {
		t.Errorf("count from version %d: receipt %+v, %v", r.Version, got, err)
	}
	return 0
}

// check compares what the writers noted with what the log holds.
func (w *writers) check(t *testing.T, log mainstem.Log) {
	t.Helper()
	held := 0
	for r, err := range log.Read(t.Context(), "all", []byte("all"), mainstem.Versions{}) {
		if err != nil {
			t.Fatal(err)
		}
		held++
		if v := w.mu.appended[string(r.Value)]; v != r.Version {
			t.Errorf("record %q has version %d, its receipt %d", r.Value, r.Version, v)
		}
	}
	if held != len(w.mu.appended) {
		t.Errorf("%d records, %d receipts", held, len(w.mu.appended))
	}
	r, err := log.Get(t.Context(), "n", []byte("n"))
	if err != nil || string(r.Value) != strconv.Itoa(w.mu.counted) || w.mu.counted == 0 {
		t.Errorf("the counter is %q, %v; %d were added", r.Value, err, w.mu.counted)
	}
}

// TestOutcomesSurviveKilledServers: 32 writers append and count, without IDs, while connections
// break and the server is killed and started anew on its directory, each time when answers of
// commits were lost. No outcome stays unknown, nothing is lost, nothing is doubled.
func TestOutcomesSurviveKilledServers(t *testing.T) {
	for _, transport := range []remotelog.Transport{remotelog.Sessions, remotelog.RPC} {
		t.Run(transport.String(), func(t *testing.T) {
			dir := t.TempDir()
			address, kill := startChild(t, dir)
			p := newProxy(t, address)
			w := &writers{log: open(t, p.url(), &remotelog.Options{Transport: transport, BatchIDs: true})}
			w.mu.appended = map[string]mainstem.Version{}
			b := mainstem.NewBatch()
			b.Ensure("all", mainstem.Policy{})
			b.Put("n", []byte("n"), []byte("0"))
			b.Ensure("n", mainstem.Policy{History: 1})
			if _, err := w.log.Commit(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			p.cutAfter.Store(6000)
			var running sync.WaitGroup
			for i := range 32 {
				running.Go(func() { w.run(t, strconv.Itoa(i)) })
			}
			for range 4 {
				acked := w.acked.Load()
				testkit.Eventually(t, "commits", func() bool { return w.acked.Load() > acked+50 || t.Failed() })
				lost := p.dropped.Load()
				p.dropAnswers.Store(true)
				testkit.Eventually(t, "answers are lost", func() bool { return p.dropped.Load() > lost || t.Failed() })
				kill()
				address, kill = startChild(t, dir)
				p.server.Store(address)
				p.dropAnswers.Store(false)
				p.cut()
			}
			w.stop.Store(true)
			running.Wait()
			w.check(t, open(t, "http://"+address, nil))
			t.Logf("%d commits, %d additions", len(w.mu.appended), w.mu.counted)
		})
	}
}

// TestOutcomesAreKnownToAnotherServer: on every engine, the receipt is that of the first try, and a
// conflict is certain.
func TestOutcomesAreKnownToAnotherServer(t *testing.T) {
	testengines.Each(t, func(t *testing.T, behind mainstem.Log) {
		p, restart := replaceable(t, behind)
		log := open(t, p.url(), &remotelog.Options{Transport: remotelog.Sessions, BatchIDs: true})
		other := func() { restart(behind) }
		want := mainstem.NewBatch()
		want.Ensure("s", mainstem.Policy{})
		want.IfAbsent("s", []byte("a")) // which does not hold any more when the server is asked again
		want.Put("s", []byte("a"), []byte("1"))
		want.Delete("s", []byte("b"))
		want.Put("s", []byte("a"), []byte("2"))
		r, err := lostCommit(t, p, log, behind, want, other)
		if err != nil || r.Duplicate || len(r.Versions) != 3 || r.Versions[0] != 1 || r.Versions[1] != 0 || r.Versions[2] != 2 || r.Time.IsZero() || r.Last != head(t, behind) {
			t.Errorf("receipt %+v, %v", r, err)
		}
		if err := log.DropSpace(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		wantError(t, lostRequest(t, p, log, behind, ""), mainstem.KindConflict, mainstem.NotWritten)
	})
}

// TestCertainConflictStaysSo: the first try is still on its way to the log, through a server that the
// client has lost, when the second is refused by another. The first is not written any more, although
// its condition holds again.
func TestCertainConflictStaysSo(t *testing.T) {
	behind := model.New(nil)
	slow := &gated{Log: behind, entered: make(chan struct{}), leave: make(chan struct{}), left: make(chan error, 1)}
	p, restart := replaceable(t, slow)
	log := open(t, p.url(), &remotelog.Options{Transport: remotelog.Sessions, BatchIDs: true})
	failed := make(chan error)
	b := put("", "k", "mine")
	b.IfAbsent("s", []byte("k"))
	go func() {
		_, err := log.Commit(t.Context(), b)
		failed <- err
	}()
	<-slow.entered
	if _, err := behind.Commit(t.Context(), put("", "k", "theirs")); err != nil {
		t.Fatal(err)
	}
	restart(behind)
	p.cut()
	wantError(t, <-failed, mainstem.KindConflict, mainstem.NotWritten)
	gone := mainstem.NewBatch()
	gone.Delete("s", []byte("k"))
	if _, err := behind.Commit(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	before := head(t, behind)
	close(slow.leave)
	if err := <-slow.left; err != nil {
		t.Errorf("the first try: %v", err)
	}
	if head(t, behind) != before {
		t.Error("the refused batch was written")
	}
}
