package producer

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a manager with its log, topics and clock.
type fixture struct {
	testing.TB
	log     mainstem.Log
	catalog *topic.Catalog
	m       *Manager
	clock   *testkit.Clock
	o       Options
}

// newFixture returns a manager without background upkeep, on an empty log in memory.
func newFixture(t testing.TB) *fixture {
	t.Helper()
	return newFixtureOn(t, testengines.Memory(t))
}

func newFixtureOn(t testing.TB, log mainstem.Log) *fixture {
	t.Helper()
	f := &fixture{TB: t, log: log, clock: new(testkit.Clock)}
	f.o = Options{Every: -1, Now: f.clock.Now}
	f.open()
	t.Cleanup(f.close)
	return f
}

func (f *fixture) open() {
	f.Helper()
	var err error
	if f.catalog, err = topic.Open(f.log, &topic.Options{Every: -1, Now: f.clock.Now}); err != nil {
		f.Fatal(err)
	}
	if f.m, err = Open(f.Context(), f.catalog, &f.o); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) close() {
	if err := f.m.Close(); err != nil {
		f.Errorf("closing the manager: %v", err)
	}
	f.catalog.Close()
}

// reopen opens another manager on the same log; clean says whether Close is called before.
func (f *fixture) reopen(clean bool) {
	f.Helper()
	if clean {
		f.close()
	} else {
		f.m.once.Do(func() { f.m.stop(); f.m.wg.Wait() }) // it saves nothing
		f.catalog.Close()
	}
	f.open()
}

func (f *fixture) topic(name string, partitions int32, config ...string) *topic.Topic {
	f.Helper()
	c := topic.Config{}
	for i := 0; i < len(config); i += 2 {
		c[config[i]] = config[i+1]
	}
	t, err := f.catalog.Create(f.Context(), name, topic.Spec{Partitions: partitions, Config: c})
	if err != nil {
		f.Fatal(err)
	}
	return t
}

// id is the producer id and epoch of a batch.
type id struct {
	pid   int64
	epoch int16
}

// batch returns a record batch of a producer.
func batch(from id, seq int32, transactional bool, values ...string) []byte {
	return keyed(from, seq, transactional, func(int) []byte { return nil }, values...)
}

func keyed(from id, seq int32, transactional bool, key func(int) []byte, values ...string) []byte {
	var b recordbatch.Builder
	for i, v := range values {
		b.Append(&recordbatch.Record{Key: key(i), Value: []byte(v), Timestamp: 1_700_000_000_000})
	}
	out, err := b.Finish(recordbatch.None)
	if err != nil {
		panic(err)
	}
	if transactional {
		out[atAttributes+1] |= transactionBit
	}
	binary.BigEndian.PutUint64(out[atProducerID:], uint64(from.pid))
	binary.BigEndian.PutUint16(out[atEpoch:], uint16(from.epoch))
	binary.BigEndian.PutUint32(out[atSequence:], uint32(seq))
	seal(out)
	return out
}

func seal(b []byte) {
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
}

func plainBatch(values ...string) []byte { return batch(id{-1, -1}, -1, false, values...) }

// append appends one batch outside of transactions.
func (f *fixture) append(t *topic.Topic, num int32, b []byte) Append {
	f.Helper()
	a := []Append{{Topic: t, Partition: num, Batch: b}}
	f.m.Append(f.Context(), AppendOptions{}, a)
	return a[0]
}

// txnAppend appends one batch of a transaction, as version 12 does if implicit.
func (f *fixture) txnAppend(txn string, implicit bool, t *topic.Topic, num int32, b []byte) Append {
	f.Helper()
	a := []Append{{Topic: t, Partition: num, Batch: b}}
	f.m.Append(f.Context(), AppendOptions{TransactionalID: &txn, Implicit: implicit}, a)
	return a[0]
}

// want checks the answer of an append.
func (f *fixture) want(a Append, code *kerr.Error, base int64) {
	f.Helper()
	if a.Code != codeFor(code) || a.Base != base {
		f.Errorf("got code %v (%s) and offset %d, want code %v and offset %d", kerr.TypedErrorForCode(a.Code), a.Message, a.Base, code, base)
	}
}

func codeFor(e *kerr.Error) int16 {
	if e == nil {
		return 0
	}
	return e.Code
}

func (f *fixture) wantCode(what string, got int16, want *kerr.Error) {
	f.Helper()
	if got != codeFor(want) {
		f.Errorf("%s: got code %d (%v), want %v", what, got, kerr.TypedErrorForCode(got), want)
	}
}

// init initialises a producer, without a transactional id if that is "".
func (f *fixture) init(txn string) id {
	f.Helper()
	got, code := f.initAs(txn, id{-1, -1}, 5)
	if code != 0 {
		f.Fatalf("init %q: %v", txn, kerr.ErrorForCode(code))
	}
	return got
}

func (f *fixture) initAs(txn string, as id, version int16) (id, int16) {
	f.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version = version
	if txn != "" {
		req.TransactionalID = &txn
	}
	req.TransactionTimeoutMillis = 60_000
	req.ProducerID, req.ProducerEpoch = as.pid, as.epoch
	resp := f.m.InitProducerID(f.Context(), coord.Client{}, req)
	return id{resp.ProducerID, resp.ProducerEpoch}, resp.ErrorCode
}

// end ends a transaction, and returns the producer id and epoch of the answer.
func (f *fixture) end(txn string, as id, commit bool, version int16) (id, int16) {
	f.Helper()
	req := kmsg.NewPtrEndTxnRequest()
	req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = version, txn, as.pid, as.epoch, commit
	resp := f.m.EndTxn(f.Context(), coord.Client{}, req)
	return id{resp.ProducerID, resp.ProducerEpoch}, resp.ErrorCode
}

// add adds partitions of one topic to a transaction.
func (f *fixture) add(txn string, as id, name string, nums ...int32) int16 {
	f.Helper()
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch = 3, txn, as.pid, as.epoch
	req.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: name, Partitions: nums}}
	resp := f.m.AddPartitionsToTxn(f.Context(), coord.Client{}, req)
	return resp.Topics[0].Partitions[0].ErrorCode
}

func (f *fixture) addGroup(txn string, as id, group string) int16 {
	f.Helper()
	req := kmsg.NewPtrAddOffsetsToTxnRequest()
	req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = 4, txn, as.pid, as.epoch, group
	return f.m.AddOffsetsToTxn(f.Context(), coord.Client{}, req).ErrorCode
}

// offset stores an offset in a transaction.
func (f *fixture) offset(txn string, as id, version int16, group, name string, num int32, next int64) int16 {
	f.Helper()
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = version, txn, as.pid, as.epoch, group
	req.Generation = -1
	req.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: name, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Partition: num, Offset: next, LeaderEpoch: -1}}}}
	return f.m.TxnOffsetCommit(f.Context(), coord.Client{}, req).Topics[0].Partitions[0].ErrorCode
}

func (f *fixture) stable(t *topic.Topic, num int32) int64 {
	f.Helper()
	end, err := t.End(f.Context(), num)
	if err != nil {
		f.Fatal(err)
	}
	lso, err := f.m.Stable(f.Context(), t, num, end)
	if err != nil {
		f.Fatal(err)
	}
	return lso
}

// committed returns the values that a consumer of committed records sees in a
// partition, each with its offset.
func (f *fixture) committed(t *topic.Topic, num int32) []string {
	f.Helper()
	out, err := readCommitted(f, f.m, t, num)
	if err != nil {
		f.Fatal(err)
	}
	return out
}

// readCommitted reads as clients do: up to the last stable offset, passing over
// batches of aborted transactions from their first offset to their marker.
func readCommitted(f testing.TB, m *Manager, t *topic.Topic, num int32) ([]string, error) {
	ctx := f.Context()
	end, err := t.End(ctx, num)
	if err != nil {
		return nil, err
	}
	start, err := t.Start(ctx, num)
	if err != nil {
		return nil, err
	}
	lso, err := m.Stable(ctx, t, num, end)
	if err != nil || lso == start {
		return nil, err
	}
	chunk, err := t.Read(ctx, num, start, &partition.ReadOptions{MaxBytes: 1 << 30, Before: lso})
	if err != nil {
		return nil, err
	}
	aborted, err := m.Aborted(ctx, t, num, start, lso)
	if err != nil {
		return nil, err
	}
	return decodeCommitted(chunk.Data, start, aborted)
}

func decodeCommitted(data []byte, start int64, aborted []Aborted) ([]string, error) {
	var out []string
	var d recordbatch.Decoder
	skipping := map[int64]bool{}
	slices.SortFunc(aborted, func(a, b Aborted) int { return cmp.Compare(a.First, b.First) }) // as clients do
	for len(data) > 0 {
		size := lengthPrefix + int(binary.BigEndian.Uint32(data[atLength:]))
		one := data[:size]
		data = data[size:]
		h, base := headerOf(one), int64(binary.BigEndian.Uint64(one))
		for len(aborted) > 0 && aborted[0].First <= base {
			skipping[aborted[0].ProducerID] = true
			aborted = aborted[1:]
		}
		if h.control {
			delete(skipping, h.pid)
			continue
		}
		if h.transactional && skipping[h.pid] {
			continue
		}
		for r, err := range d.Records(one, base) {
			if err != nil {
				return nil, err
			}
			if r.Offset >= start {
				out = append(out, fmt.Sprintf("%d=%s", r.Offset, r.Value))
			}
		}
	}
	return out, nil
}
