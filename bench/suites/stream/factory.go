package stream

import (
	"context"
	"testing"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// Name is the name of the suite.
const Name = "stream"

// Message is what is sent and stored.
type Message struct{ Key, Value []byte }

// Factory is a contender. A field that is nil is a part that it does not take part
// in. What is opened keeps its files in dir, which is empty, and is closed by its
// Close method; ctx bounds the whole entry.
type Factory struct {
	Name       string // as in [suite.Entry.Contender]
	Durability suite.Durability
	// Transport is how an operation reaches the data; it is shown in every row.
	Transport suite.Transport
	// Address is as in [suite.Entry]: of a server that the user names.
	Address string
	Note    string // one sentence on how it is used
	// Skip is as in [suite.Entry]; nil means that it can always be opened.
	Skip func(env *suite.Env) string

	Client   func(ctx context.Context, env *suite.Env, dir string) (Client, error)
	Protocol func() (Protocol, error)
	Log      func(ctx context.Context, env *suite.Env, dir string) (Log, error)
	Table    func(ctx context.Context, env *suite.Env, dir string) (Table, error)
}

// Client is a broker, or what stands for one.
type Client interface {
	// Create creates a topic with one partition.
	Create(ctx context.Context, topic string) error
	// Producer returns a new producer with a connection of its own, if there are
	// connections.
	Producer(ctx context.Context, topic string) (Producer, error)
	// Consumer returns a new consumer, with a connection of its own, that begins with
	// the message of the given number; the first of a topic has number 0.
	Consumer(ctx context.Context, topic string, from int64) (Consumer, error)
	// Close ends the broker, if it was started for this client. All producers and
	// consumers have been closed.
	Close() error
}

// Producer sends messages to one topic.
type Producer interface {
	// Send sends messages, in their order, and returns when all of them are as durable
	// as the contender's row says. More than one may share batches and requests.
	Send(ctx context.Context, ms ...Message) error
	Close() error
}

// Consumer gets the messages of one topic in their order.
type Consumer interface {
	// Fetch returns the next messages, at least one and as many as suit the contender;
	// it waits for them until ctx ends. They are lent until the next call.
	Fetch(ctx context.Context) ([]Message, error)
	Close() error
}

// Protocol turns requests into the bytes of a frame and back, as they cross a
// connection. What it decodes may alias src.
type Protocol interface {
	// AppendProduce appends a request to store messages in partition 0 of a topic.
	AppendProduce(dst []byte, topic string, ms []Message) ([]byte, error)
	// ReadProduce decodes such a request, verifies what can be verified, and calls f for
	// each message.
	ReadProduce(src []byte, f func(Message) error) (topic string, err error)
	// AppendFetch appends a request for at most max bytes from offset on.
	AppendFetch(dst []byte, f Fetch) ([]byte, error)
	// ReadFetch decodes such a request.
	ReadFetch(src []byte) (Fetch, error)
}

// Fetch is a request for messages of partition 0 of a topic.
type Fetch struct {
	Topic  string
	Offset int64
	Max    int32
}

// Log is the storage of one partition.
type Log interface {
	// Append stores messages, in their order, and returns when all of them are as
	// durable as the contender's row says. They are visible together or not at all.
	Append(ctx context.Context, ms ...Message) error
	// Read calls f for the messages from number from on, until their keys and values
	// are max bytes or more together, or there are no more. They are lent until f
	// returns; its error ends the read and is returned.
	Read(ctx context.Context, from int64, max int, f func(Message) error) error
	Close() error
}

// Table is values by key.
type Table interface {
	// Put stores a value, as durable as the contender's row says when it returns.
	Put(ctx context.Context, key, value []byte) error
	// Get returns the value of a key, which must exist. It is lent until the next call.
	Get(ctx context.Context, key []byte) ([]byte, error)
	// Scan calls f for all keys in their order. They are lent until f returns; its error
	// ends the scan and is returned.
	Scan(ctx context.Context, f func(key, value []byte) error) error
	Close() error
}

// Entries returns the entries of the contenders.
func Entries(factories ...Factory) []suite.Entry {
	var entries []suite.Entry
	for _, f := range factories {
		var own []suite.Entry
		if f.Client != nil {
			own = append(own, clientEntries(f)...)
		}
		if f.Protocol != nil {
			own = append(own, protocolEntries(f)...)
		}
		if f.Log != nil {
			own = append(own, logEntries(f)...)
		}
		if f.Table != nil {
			own = append(own, tableEntries(f)...)
		}
		for _, e := range own {
			e.Suite, e.Contender, e.Note, e.Skip = Name, f.Name, f.Note, f.Skip
			if e.Durability == "" {
				e.Durability = f.Durability
			}
			if e.Transport == "" {
				e.Transport, e.Address = f.Transport, f.Address
			}
			entries = append(entries, e)
		}
	}
	return entries
}

// Run runs the contenders as Go benchmarks.
func Run(b *testing.B, factories ...Factory) { suite.Bench(b, Entries(factories...)) }
