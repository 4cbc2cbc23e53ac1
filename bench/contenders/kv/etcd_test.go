package kv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/mainstemdev/mainstem/bench/contenders/engines"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/kv"
)

// keyspace is keys in memory that answer as a server does to what the contender asks
// when it splits, lists and cleans up.
type keyspace struct {
	clientv3.KV // panics on what is not here
	values      map[string]string
	txns        []int // the operations of each transaction
	compacted   int
	largest     int
}

func newKeyspace() *keyspace {
	return &keyspace{values: map[string]string{}, largest: 1 << 20}
}

func (k *keyspace) header() *etcdserverpb.ResponseHeader {
	return &etcdserverpb.ResponseHeader{Revision: 7}
}

func (k *keyspace) Put(_ context.Context, key, value string, _ ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	if len(value) > k.largest {
		return nil, rpctypes.ErrRequestTooLarge
	}
	k.values[key] = value
	return &clientv3.PutResponse{Header: k.header()}, nil
}

func (k *keyspace) Get(_ context.Context, key string, o ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return (*clientv3.GetResponse)(k.found(clientv3.OpGet(key, o...))), nil
}

func (k *keyspace) Delete(_ context.Context, key string, o ...clientv3.OpOption) (*clientv3.DeleteResponse, error) {
	for _, found := range k.found(clientv3.OpGet(key, o...)).Kvs {
		delete(k.values, string(found.Key))
	}
	return &clientv3.DeleteResponse{Header: k.header()}, nil
}

func (k *keyspace) Compact(_ context.Context, revision int64, _ ...clientv3.CompactOption) (*clientv3.CompactResponse, error) {
	if revision != k.header().Revision {
		return nil, fmt.Errorf("compact at %d", revision)
	}
	k.compacted++
	return nil, rpctypes.ErrCompacted // as when another bench was first
}

func (k *keyspace) Txn(context.Context) clientv3.Txn { return &keyspaceTxn{keyspace: k} }

// found returns the keys that a get asks for, in order.
func (k *keyspace) found(op clientv3.Op) *etcdserverpb.RangeResponse {
	from, to := string(op.KeyBytes()), string(op.RangeBytes())
	r := &etcdserverpb.RangeResponse{}
	for key, value := range k.values {
		if key == from || key > from && to != "" && (to == "\x00" || key < to) {
			r.Kvs = append(r.Kvs, &mvccpb.KeyValue{Key: []byte(key), Value: []byte(value)})
		}
	}
	slices.SortFunc(r.Kvs, func(a, b *mvccpb.KeyValue) int { return slices.Compare(a.Key, b.Key) })
	if most := int(op.Limit()); most > 0 && most < len(r.Kvs) {
		r.Kvs = r.Kvs[:most]
	}
	return r
}

type keyspaceTxn struct {
	clientv3.Txn
	*keyspace
	ops []clientv3.Op
}

func (t *keyspaceTxn) Then(ops ...clientv3.Op) clientv3.Txn { t.ops = ops; return t }

func (t *keyspaceTxn) Commit() (*clientv3.TxnResponse, error) {
	t.txns = append(t.txns, len(t.ops))
	if len(t.ops) > maxTxnOps {
		return nil, rpctypes.ErrTooManyOps
	}
	r := &clientv3.TxnResponse{}
	for _, op := range t.ops {
		one := &etcdserverpb.ResponseOp{}
		if op.IsPut() {
			t.values[string(op.KeyBytes())] = string(op.ValueBytes())
		} else {
			one.Response = &etcdserverpb.ResponseOp_ResponseRange{ResponseRange: t.found(op)}
		}
		r.Responses = append(r.Responses, one)
	}
	return r, nil
}

// TestEtcdSplitsTransactions: more pairs than a transaction takes are several, and
// their answers come in the order of the keys.
func TestEtcdSplitsTransactions(t *testing.T) {
	server := newKeyspace()
	s := newEtcdStore(server, nil)
	var pairs []kv.Pair
	for i := range 2*maxTxnOps + 1 {
		pairs = append(pairs, kv.Pair{Key: fmt.Sprintf("key-%d", i), Value: fmt.Appendf(nil, "value-%d", i)})
	}
	if err := s.SetMany(t.Context(), "table", pairs); err != nil {
		t.Fatal(err)
	}
	keys := []string{"absent"}
	for _, p := range slices.Backward(pairs) {
		keys = append(keys, p.Key)
	}
	values, err := s.GetMany(t.Context(), "table", keys)
	if err != nil || len(values) != len(keys) || values[0] != nil {
		t.Fatalf("%d values for %d keys, %v; the absent key is %q", len(values), len(keys), err, values[0])
	}
	for i, p := range slices.Backward(pairs) {
		if got := string(values[len(pairs)-i]); got != string(p.Value) {
			t.Errorf("%s is %q", p.Key, got)
		}
	}
	if want := []int{128, 128, 1, 128, 128, 2}; !slices.Equal(server.txns, want) {
		t.Errorf("transactions of %v operations, want %v", server.txns, want)
	}
}

// TestEtcdKeepsTablesApart: the names of tables and keys that begin alike do not mix,
// pages are cut right at the end too, and dropping takes one table and its history.
func TestEtcdKeepsTablesApart(t *testing.T) {
	ctx, server := t.Context(), newKeyspace()
	s, other := newEtcdStore(server, nil), newEtcdStore(server, nil)
	for _, store := range []*etcdStore{s, other} {
		for _, table := range []string{"round-1", "round-10"} {
			for _, key := range []string{"c", "a", "b"} {
				if err := store.Set(ctx, table, key, []byte(table+key)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, page := range []struct {
		offset, limit int
		want          []string
	}{{0, 2, []string{"a", "b"}}, {1, 5, []string{"b", "c"}}, {3, 1, nil}, {9, 1, nil}} {
		got, err := s.Page(ctx, "round-1", page.offset, page.limit)
		if err != nil || !slices.Equal(got, page.want) {
			t.Errorf("%d keys from number %d on: %q, %v; want %q", page.limit, page.offset, got, err, page.want)
		}
	}
	if err := s.Drop(ctx, "round-1"); err != nil || server.compacted != 1 {
		t.Errorf("drop: %v, %d compactions", err, server.compacted)
	}
	if _, err := s.Get(ctx, "round-1", "a"); !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("a dropped key: %v", err)
	}
	if got, err := s.Get(ctx, "round-10", "a"); err != nil || string(got) != "round-10a" {
		t.Errorf("a key of another table: %q, %v", got, err)
	}
	if err := s.remove(ctx); err != nil || len(server.values) != 6 {
		t.Errorf("%d keys are left, want those of the other store; %v", len(server.values), err)
	}
}

// TestEtcdOfOthers: a server with keys of others is left alone, one with those of
// another bench is not.
func TestEtcdOfOthers(t *testing.T) {
	for _, key := range []string{"a", "bench", "bench`", "registry/x", "\xff"} {
		server := newKeyspace()
		server.values[key] = ""
		if err := newEtcdStore(server, nil).alone(t.Context()); !errors.Is(err, suite.ErrSkip) {
			t.Errorf("a server that holds %q: %v", key, err)
		}
	}
	server := newKeyspace()
	server.values[engines.NewSchema()+"/table/key"] = ""
	if err := newEtcdStore(server, nil).alone(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestEtcdTooLarge: a server that takes no large values is skipped there with the reason.
func TestEtcdTooLarge(t *testing.T) {
	server := newKeyspace()
	s := newEtcdStore(server, nil)
	if err := s.Fits(t.Context(), server.largest); err != nil || len(server.values) > 0 {
		t.Errorf("%v, %d keys are left", err, len(server.values))
	}
	if err := s.Fits(t.Context(), server.largest+1); !errors.Is(err, suite.ErrSkip) {
		t.Error(err)
	}
}
