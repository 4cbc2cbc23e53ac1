package command

import (
	"encoding/json"
	"fmt"

	"github.com/mainstemdev/mainstem"
)

// Command asks for something to be done. It is a value: middleware and handlers do not change it.
type Command interface {
	// CommandType names the command: "PlaceOrder". It is the same for all values of a Go
	// type, the zero value and, for a pointer type, a pointer to one included.
	CommandType() string
}

// ValidatedCommand is a command that can be wrong by itself; see [Validation].
type ValidatedCommand interface {
	Command
	// Validate returns what is wrong with the command, without looking at any state: an
	// error of [Invalid], several joined, or any other.
	Validate() error
}

// AggregateCommand is a command to one aggregate; see [HandleAggregate].
type AggregateCommand interface {
	Command
	// AggregateID returns the ID of the aggregate; "" asks for a new one.
	AggregateID() string
}

// IdempotentCommand is a command with a key of its own under which it is carried out once;
// see [Idempotency].
type IdempotentCommand interface {
	Command
	// IdempotencyKey returns the key; "" means none.
	IdempotencyKey() string
}

// Base is what a command may embed: where it comes from.
type Base struct {
	CommandID     string            `json:"command_id,omitempty"`     // identifies this command; what it causes carries it as causation
	CorrelationID string            `json:"correlation_id,omitempty"` // the conversation that it belongs to
	CausationID   string            `json:"causation_id,omitempty"`   // the message that caused the command
	Metadata      map[string]string `json:"metadata,omitempty"`       // custom metadata of the events
}

// CommandBase returns b: how middleware finds it in the command.
func (b Base) CommandBase() Base { return b }

// baseOf returns the Base that cmd embeds, the zero value if it has none.
func baseOf(cmd Command) Base {
	if c, ok := cmd.(interface{ CommandBase() Base }); ok {
		return c.CommandBase()
	}
	return Base{}
}

// Result is what a command has led to.
type Result struct {
	AggregateID string            // of [HandleAggregate], or as the handler says
	Version     mainstem.Version  // of the aggregate after the commit, or as the handler says
	Position    mainstem.Position // of the last record of the commit; 0 if nothing was written
	Data        any               // what the handler returns besides; see [DataOf]
	// Duplicate is true if the command had been carried out before: the rest is what that
	// led to, and nothing was done now. See [Idempotency].
	Duplicate bool
}

// DataOf returns the Data of r as a T. That of a Duplicate was kept as JSON, and is decoded.
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
