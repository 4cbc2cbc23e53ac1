package event

import (
	"context"
	"maps"
)

type metadataKey struct{}

// WithMetadata returns a context with metadata for the toolkit: packages aggregate, command and
// others add m, completed by the metadata of ctx, to the events that they append. The methods of
// [Store] ignore it.
func WithMetadata(ctx context.Context, m Metadata) context.Context {
	return context.WithValue(ctx, metadataKey{}, m.Or(MetadataFrom(ctx)))
}

// MetadataFrom returns the metadata of ctx, or the zero value if it has none. The caller must not
// change its Custom.
func MetadataFrom(ctx context.Context) Metadata {
	m, _ := ctx.Value(metadataKey{}).(Metadata)
	return m
}

// Or returns m with its empty fields taken from other; entries of Custom are merged one by one. The
// result may share its map with m or other; neither is changed.
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
