package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"
)

// Library is a client library.
type Library struct {
	// Name is its column in the table.
	Name string
	// New returns a client of the broker at an endpoint. It does not connect.
	New func(Endpoint) Client
	// Cannot gives the reason for each scenario that the library cannot do.
	Cannot map[string]string
}

// Endpoint is where a broker is and how it is reached.
type Endpoint struct {
	Address string
	// CA is a PEM file with the authority of the broker's certificate; empty means
	// plain connections.
	CA string
	// Mechanism is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; empty means none.
	Mechanism, User, Password string
}

// TLS returns what CA says, nil if connections are plain.
func (e Endpoint) TLS() (*tls.Config, error) {
	if e.CA == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(e.CA)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", e.CA)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

// Client makes the parts of a library. Whatever it makes is closed by the caller.
type Client interface {
	Producer(ctx context.Context, o ProducerOptions) (Producer, error)
	Consumer(ctx context.Context, o ConsumerOptions) (Consumer, error)
	Admin(ctx context.Context) (Admin, error)
	// Move reads n records as a member of a group, sends them to partition 0 of
	// another topic, and commits the transaction with the offsets, or aborts it.
	Move(ctx context.Context, o MoveOptions) ([]Record, error)
}

// MoveOptions say what is moved where.
type MoveOptions struct {
	From, To, Group, TransactionalID string
	N                                int
	Commit                           bool
}

// Acks is what a producer waits for, as the number in the request.
type Acks int16

// What a producer can wait for.
const (
	AcksAll  Acks = -1
	AcksNone Acks = 0
	AcksOne  Acks = 1
)

// ProducerOptions say how records are sent. A producer partitions by the number
// in the record.
type ProducerOptions struct {
	Topic      string
	Acks       Acks
	Codec      string // none, gzip, snappy, lz4, zstd
	Idempotent bool   // needs AcksAll
	// TransactionalID makes an idempotent producer one of transactions.
	TransactionalID string
}

// Producer sends records.
type Producer interface {
	// Send returns once every record was acknowledged as the options ask. The
	// offsets of the records are set if the library learns them.
	Send(ctx context.Context, records []Record) error
	// Begin, Commit and Abort are for producers with a transactional id.
	Begin() error
	Commit(ctx context.Context) error
	Abort(ctx context.Context) error
	Close() error
}

// Start is where a consumer without a group begins.
type Start int

// Where consumers begin.
const (
	AtStart Start = iota
	AtEnd
	AtTime
)

// ConsumerOptions say what is read. With a group, partitions are assigned and
// reading begins at the start of those without a committed offset; without,
// partition 0 is read.
type ConsumerOptions struct {
	Topic         string
	Start         Start
	Time          time.Time // of AtTime
	ReadCommitted bool

	Group string
	// Next asks for the group protocol of KIP-848.
	Next bool
	// InstanceID makes the member a static one.
	InstanceID string
	// ShortSession lets the broker miss the member soon: see Session. With Next it says nothing.
	ShortSession bool
}

// Session is how long a member may be silent before the broker removes it: what Kafka's clients
// have by default, so that one that stood still for a while remains, or with ShortSession the
// shortest that brokers allow.
func (o ConsumerOptions) Session() time.Duration {
	if o.ShortSession {
		return 6 * time.Second
	}
	return 45 * time.Second
}

// Consumer reads records.
type Consumer interface {
	// Poll waits for at least one record, or until ctx ends.
	Poll(ctx context.Context) ([]Record, error)
	// Commit commits what Poll has returned. A commit refused because partitions
	// are just being moved is no error: the member that gets them reads again.
	Commit(ctx context.Context) error
	// Close leaves the group.
	Close() error
}

// Admin is what tools do.
type Admin interface {
	CreateTopic(ctx context.Context, name string, partitions int, configs map[string]string) error
	Topics(ctx context.Context) (partitions map[string]int, err error)
	AddPartitions(ctx context.Context, name string, total int) error
	Configs(ctx context.Context, name string) (map[string]string, error)
	SetConfig(ctx context.Context, name, key, value string) error
	DeleteRecords(ctx context.Context, name string, before int64) error // of partition 0
	Offsets(ctx context.Context, name string) (start, end int64, err error)
	DeleteTopic(ctx context.Context, name string) error

	Groups(ctx context.Context) ([]string, error)
	Group(ctx context.Context, name string) (state string, members int, err error)
	GroupOffsets(ctx context.Context, group, topic string) (map[int32]int64, error)
	DeleteGroup(ctx context.Context, name string) error
	Close() error
}

// Record is what all libraries agree that a record is.
type Record struct {
	Partition  int32
	Offset     int64
	Key, Value []byte // a nil key or value is none
	Headers    []Header
	Time       time.Time // milliseconds
}

// Header is one header of a record.
type Header struct {
	Name  string
	Value []byte
}
