package topic

import (
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The values of Kafka's own UtilsTest.
func TestMurmur2Golden(t *testing.T) {
	for key, want := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
	} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("murmur2(%q) = %d, want %d", key, got, want)
		}
	}
}

func TestKeyPartitionIsKafkas(t *testing.T) {
	theirs := kgo.StickyKeyPartitioner(nil).ForTopic("t")
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		key := make([]byte, rng.IntN(40))
		for i := range key {
			key[i] = byte(rng.Uint32())
		}
		n := 1 + rng.IntN(1000)
		if got, want := KeyPartition(key, int32(n)), theirs.Partition(&kgo.Record{Key: key}, n); int(got) != want {
			t.Fatalf("key %x of %d: partition %d, franz-go's is %d", key, n, got, want)
		}
	}
}

func TestRoundRobin(t *testing.T) {
	choose := RoundRobin()
	first := choose(&Record{}, 3)
	for i := range int32(10) {
		if got := choose(&Record{Key: []byte("same")}, 3); got != (first+1+i)%3 {
			t.Errorf("turn %d went to %d after %d", i, got, first)
		}
	}
}
