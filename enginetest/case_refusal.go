package enginetest

import (
	"errors"
	"time"

	"github.com/mainstemdev/mainstem"
)

var refusalCases = []testCase{
	{name: "undeclared features are refused", run: refuseUndeclared,
		promise: "What an engine does not offer it refuses with Unsupported: it never ignores it silently."},
}

// refuseUndeclared asks for everything that the engine says it does not offer.
func refuseUndeclared(e *env) {
	e.seeded()
	for _, c := range []struct {
		offered bool
		w       mainstem.Write
	}{
		{e.f.Truncate, mainstem.Write{Op: mainstem.OpTruncate, Version: 1}},
		{e.f.Rewrite, mainstem.Write{Op: mainstem.OpRewrite, Version: 2}},
		{e.f.Remove, mainstem.Write{Op: mainstem.OpRemove, Version: 2}},
		{e.f.Forget, mainstem.Write{Op: mainstem.OpForget}},
		{e.f.Expiry, mainstem.Write{TTL: time.Hour}},
	} {
		if c.offered {
			continue
		}
		for _, space := range []string{"s", "b"} {
			c.w.Space, c.w.Key = space, []byte("twice")
			e.refused(mainstem.KindUnsupported, func(b *mainstem.Batch) { muchWork(b); b.Add(c.w) })
		}
	}
	for _, c := range []struct {
		offered bool
		p       mainstem.Policy
	}{
		{e.f.MaxAge, mainstem.Policy{MaxAge: time.Hour}},
		{e.f.MaxBytes, mainstem.Policy{MaxBytes: 1 << 30}},
	} {
		if c.offered {
			continue
		}
		e.kind("create a space", e.log.CreateSpace(e.ctx, "new", c.p), mainstem.KindUnsupported)
		e.kind("alter a space", e.log.AlterSpace(e.ctx, "s", c.p), mainstem.KindUnsupported)
		e.refused(mainstem.KindUnsupported, func(b *mainstem.Batch) { b.Ensure("new", c.p); b.Put("new", []byte("k"), nil) })
	}
	if _, err := e.log.Space(e.ctx, "new"); !errors.Is(err, mainstem.ErrNotFound) {
		e.Fatalf("a space with a policy that is not offered was created: %v", err)
	}
}
