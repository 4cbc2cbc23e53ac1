package command

import (
	"encoding/json"
	"fmt"

	"github.com/mainstemdev/mainstem"
)

// Command is a request to change something. It is a value: middleware and handlers do not change
// it.
type Command interface {
	// CommandType returns the name of the command's type, such as "PlaceOrder". It returns the same
	// name for all values of a Go type, including the zero value and, for a pointer type, a pointer
	// to a zero value.
	CommandType() string
}

// ValidatedCommand is a command that checks its own fields; see [Validation].
type ValidatedCommand interface {
	Command
	// Validate returns an error if the command is invalid by itself, without regard to any state:
	// the result of [Invalid], several of these joined, or any other error.
	Validate() error
}

// AggregateCommand is a command for one aggregate; see [HandleAggregate].
type AggregateCommand interface {
	Command
	// AggregateID returns the ID of the aggregate. If it is "", HandleAggregate makes a new ID.
	AggregateID() string
}

// IdempotentCommand is a command with an idempotency key of its own; see [Idempotency].
type IdempotentCommand interface {
	Command
	// IdempotencyKey returns the key, or "" for none.
	IdempotencyKey() string
}

// Base has the identity and the origin of a command. Commands may embed it.
type Base struct {
	CommandID     string            `json:"command_id,omitempty"`     // identifies the command; its events have it as CausationID
	CorrelationID string            `json:"correlation_id,omitempty"` // the conversation that the command belongs to
	CausationID   string            `json:"causation_id,omitempty"`   // the message that caused the command
	Metadata      map[string]string `json:"metadata,omitempty"`       // custom metadata of the events
}

// CommandBase returns b. Middleware finds the Base of a command by this method.
func (b Base) CommandBase() Base { return b }

// baseOf returns the Base that cmd embeds, or the zero Base.
func baseOf(cmd Command) Base {
	if c, ok := cmd.(interface{ CommandBase() Base }); ok {
		return c.CommandBase()
	}
	return Base{}
}

// Result describes the outcome of a command that succeeded.
type Result struct {
	// AggregateID is set by [HandleAggregate], or by the handler.
	AggregateID string
	// Version is the version of the aggregate after the commit, or as the handler set it.
	Version mainstem.Version
	// Position is that of the last record of the commit; 0 if nothing was written, or if the
	// command was joined to another. For a Duplicate it is that of the idempotency record, which
	// comes after the handler's writes.
	Position mainstem.Position
	// Data is a further result of the handler; see [DataOf].
	Data any
	// Duplicate is true if the command had been handled before. The other fields are then those of
	// the first time, and nothing was written now. See [Idempotency].
	Duplicate bool
}

// DataOf returns the Data of r as a T. The Data of a Duplicate was stored as JSON, and is decoded.
func DataOf[T any](r Result) (T, error) {
	var v T
	switch data := r.Data.(type) {
	case T:
		return data, nil
	case json.RawMessage:
		if err := json.Unmarshal(data, &v); err != nil {
			return v, fmt.Errorf("data of a duplicate: %w", err)
		}
		return v, nil
	default:
		return v, fmt.Errorf("the result holds a %T, not a %T", r.Data, v)
	}
}
