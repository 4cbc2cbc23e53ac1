package runnertest

import (
	"maps"
	"testing"
)

func TestAddresses(t *testing.T) {
	t.Setenv(Servers, "")
	if got := Addresses(t); len(got) != 0 {
		t.Errorf("%v without any", got)
	}
	t.Setenv(Servers, "redis=127.0.0.1:6379  kafka=a:1,b:2 postgres=postgres://u@h/d?x=y")
	want := map[string]string{"redis": "127.0.0.1:6379", "kafka": "a:1,b:2", "postgres": "postgres://u@h/d?x=y"}
	if got := Addresses(t); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
