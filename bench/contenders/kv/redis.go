package kv

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mainstemdev/mainstem/bench/contenders/engines"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/kv"
)

// redisHash is hashes of Redis, if the server at the address is configured for
// durability d.
func redisHash(name string, d suite.Durability) kv.Factory {
	return kv.Factory{
		Name: "redis-" + name, Durability: d, Transport: suite.LoopbackTCP, Address: "redis", ScaleKeys: slowScale,
		Note:  "a hash for each table; pages list all keys and sort them; compare-and-set is a script that compares values",
		Lacks: map[string]string{"watch": "hashes tell nobody unless the server was configured for it"},
		Skip:  suite.NeedAddress("redis"),
		Open: func(ctx context.Context, env *suite.Env, _ string) (kv.Store, error) {
			address, err := env.Address("redis")
			if err != nil {
				return nil, err
			}
			s := &redisStore{client: redis.NewClient(&redis.Options{Addr: address}), prefix: engines.NewSchema() + ":"}
			s.end = func() error { return s.remove(context.WithoutCancel(ctx)) }
			found, err := s.durability(ctx)
			if err == nil && found != d {
				err = suite.Skipf("the Redis server is configured for durability %s", found)
			}
			if err != nil {
				return nil, errors.Join(err, s.Close())
			}
			return s, nil
		},
	}
}

type redisStore struct {
	client *redis.Client
	prefix string
	tables buckets[struct{}]
	end    func() error
}

// durability says what the configuration of the server makes of a write.
func (s *redisStore) durability(ctx context.Context) (suite.Durability, error) {
	settings, err := s.client.ConfigGet(ctx, "append*").Result()
	switch {
	case err != nil:
		return "", err
	case settings["appendonly"] != "yes":
		return suite.Memory, nil
	case settings["appendfsync"] == "always":
		return suite.Fsync, nil
	case settings["appendfsync"] == "everysec":
		return suite.Interval, nil
	}
	return suite.OS, nil
}

// hash returns the key of the hash that holds table, which Close removes.
func (s *redisStore) hash(table string) string {
	_, _ = s.tables.get(table, func() (struct{}, error) { return struct{}{}, nil })
	return s.prefix + table
}

func (s *redisStore) Set(ctx context.Context, table, key string, value []byte) error {
	return s.client.HSet(ctx, s.hash(table), key, value).Err()
}

func (s *redisStore) SetMany(ctx context.Context, table string, pairs []kv.Pair) error {
	values := make([]any, 0, 2*len(pairs))
	for _, p := range pairs {
		values = append(values, p.Key, p.Value)
	}
	return s.client.HSet(ctx, s.hash(table), values...).Err()
}

func (s *redisStore) Get(ctx context.Context, table, key string) ([]byte, error) {
	v, err := s.client.HGet(ctx, s.hash(table), key).Bytes()
	if errors.Is(err, redis.Nil) {
		err = kv.ErrNotFound
	}
	return v, err
}

func (s *redisStore) GetMany(ctx context.Context, table string, keys []string) ([][]byte, error) {
	found, err := s.client.HMGet(ctx, s.hash(table), keys...).Result()
	values := make([][]byte, len(found))
	for i, v := range found {
		if text, ok := v.(string); ok {
			values[i] = []byte(text)
		}
	}
	return values, err
}

func (s *redisStore) Delete(ctx context.Context, table, key string) error {
	return s.client.HDel(ctx, s.hash(table), key).Err()
}

func (s *redisStore) Keys(ctx context.Context, table string) ([]string, error) {
	return s.client.HKeys(ctx, s.hash(table)).Result()
}

func (s *redisStore) Page(ctx context.Context, table string, offset, limit int) ([]string, error) {
	keys, err := s.Keys(ctx, table)
	slices.Sort(keys)
	return keys[min(offset, len(keys)):min(offset+limit, len(keys))], err
}

func (s *redisStore) Drop(ctx context.Context, table string) error {
	s.tables.forget(table)
	return s.client.Unlink(ctx, s.prefix+table).Err()
}

// Read implements [kv.Swapper].
func (s *redisStore) Read(ctx context.Context, table, key string) (kv.Version, error) {
	v, err := s.Get(ctx, table, key)
	return kv.Version{Value: v}, err
}

// swapScript sets a field of a hash if it has a value.
var swapScript = redis.NewScript(`
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1`)

// Swap implements [kv.Swapper].
func (s *redisStore) Swap(ctx context.Context, table, key string, old kv.Version, value []byte) (kv.Version, error) {
	done, err := swapScript.Run(ctx, s.client, []string{s.hash(table)}, key, old.Value, value).Int()
	if err == nil && done == 0 {
		err = kv.ErrConflict
	}
	return kv.Version{Value: value}, err
}

// closePatience bounds how long the server may take to remove what an entry wrote.
const closePatience = time.Minute

// remove removes all tables: the server is somebody's.
func (s *redisStore) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closePatience)
	defer cancel()
	var err error
	s.tables.known.Range(func(table, _ any) bool {
		err = s.client.Unlink(ctx, s.prefix+table.(string)).Err()
		return err == nil // a server that is gone would say the same for each
	})
	return err
}

func (s *redisStore) Close() error { return errors.Join(s.end(), s.client.Close()) }
