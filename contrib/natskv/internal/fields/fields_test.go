package fields_test

import (
	"context"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/contrib/natskv/internal/fields"
)

type op uint8

type inner struct{ Key string }

type outer struct {
	inner
	Limit   uint
	Prefix  bool
	TTL     time.Duration
	At      time.Time
	Data    []byte
	Op      op
	Context context.Context
}

func TestFields(t *testing.T) {
	now := time.Now()
	ctx := t.Context()
	x := outer{Limit: 7, Prefix: true, TTL: 3, At: now, Data: []byte("d"), Context: ctx}
	f := fields.Of(&x)
	if !f.Set("Key", "k") || !f.Set("Op", 2) || f.Set("Nix", 1) || f.Set("Limit", "x") {
		t.Error("Set")
	}
	if f.String("Key") != "k" || f.Count("Limit") != 7 || !f.Bool("Prefix") || f.Duration("TTL") != 3 || !f.Time("At").Equal(now) ||
		string(f.Bytes("Data")) != "d" || f.Context("Context", nil) != ctx || x.Op != 2 {
		t.Errorf("read %+v", x)
	}
	other := context.WithValue(ctx, op(1), 1)
	if f.String("Limit") != "" || f.Count("Key") != 0 || f.Bool("Nix") || f.Value("Nix") != nil || f.Context("Nix", other) != other {
		t.Error("fields that are not there, or of another type, are not zero")
	}
}

func TestCheck(t *testing.T) {
	if err := fields.Check[outer](map[string]any{"Key": "", "Op": uint8(0)}); err != nil {
		t.Error(err)
	}
	if fields.Check[outer](map[string]any{"Nix": ""}) == nil || fields.Check[outer](map[string]any{"Key": []int{}}) == nil || fields.Check[int](nil) == nil {
		t.Error("what does not fit passes")
	}
}
