package kv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/mainstemdev/mainstem/bench/contenders/engines"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/kv"
)

// maxTxnOps is how many operations a server takes in one transaction, unless its
// --max-txn-ops says otherwise.
const maxTxnOps = 128

// etcdKeys is the keys of an etcd server or cluster. It syncs its log before it
// answers a write, and offers nothing less.
func etcdKeys() kv.Factory {
	return kv.Factory{
		Name: "etcd-fsync", Durability: suite.Fsync, Transport: suite.LoopbackHTTP, Address: "etcd", ScaleKeys: slowScale,
		Note: "a prefix for each table; many keys are a transaction of up to 128; pages list keys from the first on; reads are linearizable; " +
			"fsync is what etcd does unless it was started with --unsafe-no-fsync, which it tells nobody",
		Skip: suite.NeedAddress("etcd"),
		Open: func(ctx context.Context, env *suite.Env, _ string) (kv.Store, error) {
			address, err := env.Address("etcd")
			if err != nil {
				return nil, err
			}
			client, err := clientv3.New(clientv3.Config{
				Endpoints:   strings.Split(address, ","),
				Logger:      zap.NewNop(), // what it would say on standard error is in the errors too
				DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(impatient)},
			})
			if err != nil {
				return nil, err
			}
			s := newEtcdStore(client, client)
			s.end = func() error { return errors.Join(s.remove(context.WithoutCancel(ctx)), client.Close()) }
			if err := s.alone(ctx); err != nil {
				return nil, errors.Join(err, client.Close())
			}
			return s, nil
		},
	}
}

// impatient makes calls fail when the server refuses connections: etcd's client waits
// for it to return, however long that takes, and says nothing.
func impatient(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, o ...grpc.CallOption) error {
	return call(ctx, method, req, reply, conn, append(o, grpc.WaitForReady(false))...)
}

type etcdStore struct {
	client  clientv3.KV
	watcher clientv3.Watcher
	prefix  string // of all keys
	end     func() error
}

func newEtcdStore(client clientv3.KV, watcher clientv3.Watcher) *etcdStore {
	return &etcdStore{client: client, watcher: watcher, prefix: engines.NewSchema() + "/"}
}

// alone returns an error unless the server holds keys of the bench only. A server
// keeps what was overwritten and deleted until somebody compacts it, and when its
// quota is full it refuses all writes. So the store compacts it, which takes the
// history of every key away: nobody else's may be there.
func (s *etcdStore) alone(ctx context.Context) error {
	first := []clientv3.OpOption{clientv3.WithKeysOnly(), clientv3.WithLimit(1)}
	before := append([]clientv3.OpOption{clientv3.WithRange(engines.SchemaPrefix)}, first...)
	after := append([]clientv3.OpOption{clientv3.WithFromKey()}, first...)
	end := clientv3.GetPrefixRangeEnd(engines.SchemaPrefix)
	r, err := s.client.Txn(ctx).Then(clientv3.OpGet("\x00", before...), clientv3.OpGet(end, after...)).Commit()
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	for _, found := range r.Responses {
		if kvs := found.GetResponseRange().Kvs; len(kvs) > 0 {
			return suite.Skipf("the etcd server holds keys of others (%.40q is one), whose history would be compacted: give the address of one that is empty", kvs[0].Key)
		}
	}
	return nil
}

// table returns the prefix of the keys of table.
func (s *etcdStore) table(table string) string { return s.prefix + table + "/" }

func (s *etcdStore) Set(ctx context.Context, table, key string, value []byte) error {
	_, err := s.client.Put(ctx, s.table(table)+key, string(value))
	return err
}

func (s *etcdStore) Get(ctx context.Context, table, key string) ([]byte, error) {
	v, err := s.Read(ctx, table, key)
	return v.Value, err
}

func (s *etcdStore) Delete(ctx context.Context, table, key string) error {
	_, err := s.client.Delete(ctx, s.table(table)+key)
	return err
}

// SetMany writes the pairs of a transaction together; there are several if there are
// more pairs than one takes.
func (s *etcdStore) SetMany(ctx context.Context, table string, pairs []kv.Pair) error {
	prefix := s.table(table)
	ops := make([]clientv3.Op, len(pairs))
	for i, p := range pairs {
		ops[i] = clientv3.OpPut(prefix+p.Key, string(p.Value))
	}
	for part := range slices.Chunk(ops, maxTxnOps) {
		if _, err := s.client.Txn(ctx).Then(part...).Commit(); err != nil {
			return err
		}
	}
	return nil
}

func (s *etcdStore) GetMany(ctx context.Context, table string, keys []string) ([][]byte, error) {
	prefix := s.table(table)
	ops := make([]clientv3.Op, len(keys))
	for i, key := range keys {
		ops[i] = clientv3.OpGet(prefix + key)
	}
	values := make([][]byte, 0, len(keys))
	for part := range slices.Chunk(ops, maxTxnOps) {
		r, err := s.client.Txn(ctx).Then(part...).Commit()
		if err != nil {
			return nil, err
		}
		for _, found := range r.Responses {
			var value []byte
			if kvs := found.GetResponseRange().Kvs; len(kvs) > 0 {
				value = kvs[0].Value
			}
			values = append(values, value)
		}
	}
	return values, nil
}

func (s *etcdStore) Keys(ctx context.Context, table string) ([]string, error) {
	return s.keys(ctx, table, 0) // 0 is no limit
}

// Page lists the keys from the first on: etcd has no offset.
func (s *etcdStore) Page(ctx context.Context, table string, offset, limit int) ([]string, error) {
	keys, err := s.keys(ctx, table, int64(offset+limit))
	return keys[min(offset, len(keys)):], err
}

// keys returns the first keys of table in their order, limit of them.
func (s *etcdStore) keys(ctx context.Context, table string, limit int64) ([]string, error) {
	prefix := s.table(table)
	r, err := s.client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(limit))
	if err != nil {
		return nil, err
	}
	keys := make([]string, len(r.Kvs))
	for i, found := range r.Kvs {
		keys[i] = string(found.Key[len(prefix):])
	}
	return keys, nil
}

func (s *etcdStore) Drop(ctx context.Context, table string) error {
	return s.erase(ctx, s.table(table))
}

// erase removes all keys with prefix, and the history of all keys: what was deleted
// takes room until then.
func (s *etcdStore) erase(ctx context.Context, prefix string) error {
	r, err := s.client.Delete(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return err
	}
	_, err = s.client.Compact(ctx, r.Header.Revision, clientv3.WithCompactPhysical())
	return ignore(err, rpctypes.ErrCompacted) // somebody else did it
}

// Read implements [kv.Swapper].
func (s *etcdStore) Read(ctx context.Context, table, key string) (kv.Version, error) {
	r, err := s.client.Get(ctx, s.table(table)+key)
	if err != nil {
		return kv.Version{}, err
	}
	if len(r.Kvs) == 0 {
		return kv.Version{}, kv.ErrNotFound
	}
	return kv.Version{Revision: uint64(r.Kvs[0].ModRevision), Value: r.Kvs[0].Value}, nil
}

// Swap implements [kv.Swapper].
func (s *etcdStore) Swap(ctx context.Context, table, key string, old kv.Version, value []byte) (kv.Version, error) {
	name := s.table(table) + key
	r, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(name), "=", int64(old.Revision))).
		Then(clientv3.OpPut(name, string(value))).Commit()
	if err != nil {
		return kv.Version{}, err
	}
	if !r.Succeeded {
		return kv.Version{}, kv.ErrConflict
	}
	return kv.Version{Revision: uint64(r.Header.Revision), Value: value}, nil
}

// Watch implements [kv.Watcher].
func (s *etcdStore) Watch(ctx context.Context, table string, ready func(), each func(key string, value []byte)) error {
	prefix := s.table(table)
	for r := range s.watcher.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify(), clientv3.WithFilterDelete()) {
		if err := r.Err(); err != nil {
			return errors.Join(ctx.Err(), err)
		}
		if r.Created {
			ready()
		}
		for _, e := range r.Events {
			each(string(e.Kv.Key[len(prefix):]), e.Kv.Value)
		}
	}
	return ctx.Err()
}

// Fits implements [kv.Bounded]: servers refuse requests above their
// --max-request-bytes, 1.5 MiB by default; those far above it already when they read
// them, in the words of gRPC.
func (s *etcdStore) Fits(ctx context.Context, size int) error {
	const table = "fits"
	err := s.Set(ctx, table, "value", make([]byte, size))
	if errors.Is(err, rpctypes.ErrRequestTooLarge) || err != nil && strings.Contains(err.Error(), "larger than max") {
		return suite.Skipf("the etcd server refuses a value of %d bytes (%v): start it with a larger --max-request-bytes", size, err)
	}
	return errors.Join(err, s.Drop(ctx, table))
}

// remove removes all keys of this store: the server is somebody's.
func (s *etcdStore) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closePatience)
	defer cancel()
	return s.erase(ctx, s.prefix)
}

func (s *etcdStore) Close() error { return s.end() }
