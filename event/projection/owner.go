package projection

import (
	"context"
	"strings"
)

// ProjectionOf returns the name of the projection that the subscription called name belongs to, or
// "" if it belongs to none that was ever started.
func (e *Engine) ProjectionOf(ctx context.Context, name string) (string, error) {
	if i := strings.IndexAny(name, "@#"); i >= 0 { // names of projections contain neither; see subscriptions
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
