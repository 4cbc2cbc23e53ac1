package projection

import (
	"context"
	"strings"
)

// ProjectionOf returns the projection that has the checkpoint of the subscription called name, ""
// if none does that was ever started.
func (e *Engine) ProjectionOf(ctx context.Context, name string) (string, error) {
	if i := strings.IndexAny(name, "@#"); i >= 0 { // see subscriptions: projections have neither in their names
		name = name[:i]
	}
	if name == "" || len(name) > MaxName {
		return "", nil
	}
	_, _, found, err := e.controls.get(ctx, name)
	if err != nil || !found {
		return "", err
	}
	return name, nil
}
