package runnertest

import (
	"os"
	"strings"
	"testing"
)

// Servers is the environment variable that names servers of others to the tests of
// contenders, as --address does to the bench, with spaces between them:
// "redis=127.0.0.1:6379 etcd=127.0.0.1:2379". What the tests write there, they remove.
const Servers = "MAINSTEM_BENCH_SERVERS"

// Addresses returns the servers that the environment names, by kind.
func Addresses(t testing.TB) map[string]string {
	t.Helper()
	addresses := map[string]string{}
	for _, one := range strings.Fields(os.Getenv(Servers)) {
		kind, address, ok := strings.Cut(one, "=")
		if !ok || kind == "" || address == "" {
			t.Fatalf("%s has %q, want kind=address", Servers, one)
		}
		addresses[kind] = address
	}
	return addresses
}
