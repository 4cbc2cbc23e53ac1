package event

import (
	"context"
	"maps"
)

type metadataKey struct{}

// WithMetadata returns a context with which the toolkit appends: packages aggregate,
// command and others give their events m, completed by what ctx had already. The
// calls of [Store] do not look at it.
func WithMetadata(ctx context.Context, m Metadata) context.Context {
	return context.WithValue(ctx, metadataKey{}, m.Or(MetadataFrom(ctx)))
}

// MetadataFrom returns the metadata of ctx; the zero value if it has none. Its Custom
// must not be changed.
func MetadataFrom(ctx context.Context) Metadata {
	m, _ := ctx.Value(metadataKey{}).(Metadata)
	return m
}

// Or returns m with what it leaves empty taken from other, entries of Custom one by one.
// The result shares a map with m or other; neither changes.
func (m Metadata) Or(other Metadata) Metadata {
	or := func(s *string, other string) {
		if *s == "" {
			*s = other
		}
	}
	or(&m.CorrelationID, other.CorrelationID)
	or(&m.CausationID, other.CausationID)
	or(&m.UserID, other.UserID)
	or(&m.TenantID, other.TenantID)
	switch {
	case len(other.Custom) == 0:
	case len(m.Custom) == 0:
		m.Custom = other.Custom
	default:
		both := maps.Clone(other.Custom)
		maps.Copy(both, m.Custom)
		m.Custom = both
	}
	return m
}
