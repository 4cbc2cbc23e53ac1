package kafka

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// The defaults.
const (
	DefaultNodeID          = 1
	DefaultMaxRequest      = 100 << 20 // as Kafka's socket.request.max.bytes
	DefaultMaxInFlight     = 512 << 20
	DefaultMaxConnections  = 10_000
	DefaultMaxFetch        = 64 << 20
	DefaultWriteTimeout    = 30 * time.Second
	DefaultIdleTimeout     = 10 * time.Minute // as Kafka's connections.max.idle.ms
	DefaultAuthTimeout     = 30 * time.Second
	DefaultPartitions      = 1
	DefaultAutoCreateRate  = 300
	DefaultAutoCreateTotal = 10_000
	DefaultOffsetRetention = 7 * 24 * time.Hour // as Kafka's offsets.retention.minutes
	DefaultGroupSession    = 45 * time.Second   // as Kafka's group.consumer.session.timeout.ms
	DefaultGroupHeartbeat  = 5 * time.Second    // as Kafka's group.consumer.heartbeat.interval.ms
)

// Options configures [Open]. nil and zero fields mean the defaults.
type Options struct {
	// NodeID is the broker ID of the server in its answers to clients. Default
	// [DefaultNodeID].
	NodeID int32
	// Sources show other data of the log as topics that clients can read: package
	// eventtopic shows event stores, package alert/kafkatopic tables of alerts. If two
	// reserve a name, the first is used. They stay the caller's, who closes them after
	// Shutdown. Default: none.
	Sources []partition.Source
	// NoAutoCreate turns off the creation of topics that clients name in a Metadata
	// request. By default such a topic is created, if the client allows it, as with Kafka's
	// auto.create.topics.enable.
	NoAutoCreate bool
	// AutoCreateRate is how many topics a minute are created because clients name them,
	// for all clients together. As many may be created at once after a pause. Clients ask
	// again for topics beyond that. Default [DefaultAutoCreateRate].
	AutoCreateRate int
	// AutoCreateTopics is the number of topics in the log, however created, at which no more
	// are created because clients name them. Default [DefaultAutoCreateTotal].
	AutoCreateTopics int
	// Partitions is the number of partitions of a topic whose creator gives none.
	// Default [DefaultPartitions].
	Partitions int32
	// MaxRequest bounds the size of a request in bytes, and the bytes that decoding it may
	// take besides. Default [DefaultMaxRequest].
	MaxRequest int
	// MaxInFlight bounds, in bytes, the memory of all requests that are being read or served
	// and of decoding them. A request that does not fit waits; after WriteTimeout its
	// connection is closed. The memory of all answers that are built or written has a
	// second limit of the same size. At least MaxRequest, if both are given. Default
	// [DefaultMaxInFlight], or MaxRequest if that is more.
	MaxInFlight int
	// Memory is the budget of which requests and answers take their memory, so that all
	// servers of a process can share one limit. A request larger than its limit is refused.
	// Default: a budget of twice MaxInFlight for this server alone.
	Memory *budget.Budget
	// MaxConnections bounds the connections; further ones are closed at once.
	// Default [DefaultMaxConnections].
	MaxConnections int
	// MaxFetch bounds the bytes of record batches in an answer to a fetch, whatever the
	// client asks for; a first batch that is larger is sent nevertheless. Default
	// [DefaultMaxFetch].
	MaxFetch int
	// WriteTimeout is the time in which a client must take each 256 KiB of an answer. It is
	// also added to the time that the bytes of a request may take to arrive, and bounds how
	// long a request waits for memory. Default [DefaultWriteTimeout].
	WriteTimeout time.Duration
	// IdleTimeout is how long a connection may be without a request, and how long a fetch
	// waits at most. Default [DefaultIdleTimeout].
	IdleTimeout time.Duration
	// AuthTimeout is the time for the TLS handshake and SASL authentication of a connection
	// together. Default [DefaultAuthTimeout].
	AuthTimeout time.Duration
	// OffsetRetention is how long the offsets of an empty group are kept.
	// Default [DefaultOffsetRetention].
	OffsetRetention time.Duration
	// GroupSession is the session timeout of members of KIP-848 groups: a member that sends
	// no heartbeat for so long is removed. GroupHeartbeat is the interval at which members
	// are asked to send one, and must be less. A group may have configurations of its own;
	// members of classic groups choose theirs. Defaults [DefaultGroupSession],
	// [DefaultGroupHeartbeat].
	GroupSession   time.Duration
	GroupHeartbeat time.Duration
	// Now is the clock of groups, transactions and AutoCreateRate; timeouts of connections
	// use the system's. Default [time.Now].
	Now func() time.Time
	// Logger receives errors of clients and failures of the log. Default: discards.
	Logger *slog.Logger
	// Metrics is called for each event that it counts. Default: none.
	Metrics Metrics
}

// Validate returns an Invalid error that names the first field that is out of range. nil is
// valid.
func (o *Options) Validate() error {
	if o == nil {
		return nil
	}
	for _, f := range []struct {
		name string
		v    int64
	}{
		{"NodeID", int64(o.NodeID)}, {"Partitions", int64(o.Partitions)}, {"AutoCreateRate", int64(o.AutoCreateRate)}, {"AutoCreateTopics", int64(o.AutoCreateTopics)}, {"MaxRequest", int64(o.MaxRequest)},
		{"MaxInFlight", int64(o.MaxInFlight)}, {"MaxConnections", int64(o.MaxConnections)}, {"MaxFetch", int64(o.MaxFetch)},
		{"WriteTimeout", int64(o.WriteTimeout)}, {"IdleTimeout", int64(o.IdleTimeout)}, {"AuthTimeout", int64(o.AuthTimeout)}, {"OffsetRetention", int64(o.OffsetRetention)},
		{"GroupSession", int64(o.GroupSession)}, {"GroupHeartbeat", int64(o.GroupHeartbeat)},
	} {
		if f.v < 0 {
			return mainstem.Errorf(mainstem.KindInvalid, "kafka", "Options.%s is %d: want 0 (the default) or more", f.name, f.v)
		}
	}
	if o.Partitions > topic.MaxPartitions {
		return mainstem.Errorf(mainstem.KindInvalid, "kafka", "Options.Partitions is %d: at most %d", o.Partitions, topic.MaxPartitions)
	}
	if session, beat := cmp.Or(o.GroupSession, DefaultGroupSession), cmp.Or(o.GroupHeartbeat, DefaultGroupHeartbeat); beat >= session {
		return mainstem.Errorf(mainstem.KindInvalid, "kafka", "Options.GroupHeartbeat is %v: want less than GroupSession, %v", beat, session)
	}
	if o.MaxInFlight > 0 && o.MaxInFlight < o.MaxRequest {
		return mainstem.Errorf(mainstem.KindInvalid, "kafka", "Options.MaxInFlight is %d: want at least MaxRequest, %d", o.MaxInFlight, o.MaxRequest)
	}
	return nil
}

// withDefaults returns a copy of o with all defaults filled in.
func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	out.NodeID = cmp.Or(out.NodeID, DefaultNodeID)
	out.Partitions = cmp.Or(out.Partitions, DefaultPartitions)
	out.AutoCreateRate = cmp.Or(out.AutoCreateRate, DefaultAutoCreateRate)
	out.AutoCreateTopics = cmp.Or(out.AutoCreateTopics, DefaultAutoCreateTotal)
	out.MaxRequest = cmp.Or(out.MaxRequest, DefaultMaxRequest)
	out.MaxInFlight = cmp.Or(out.MaxInFlight, max(DefaultMaxInFlight, out.MaxRequest))
	out.MaxConnections = cmp.Or(out.MaxConnections, DefaultMaxConnections)
	out.MaxFetch = cmp.Or(out.MaxFetch, DefaultMaxFetch)
	out.WriteTimeout = cmp.Or(out.WriteTimeout, DefaultWriteTimeout)
	out.IdleTimeout = cmp.Or(out.IdleTimeout, DefaultIdleTimeout)
	out.AuthTimeout = cmp.Or(out.AuthTimeout, DefaultAuthTimeout)
	out.OffsetRetention = cmp.Or(out.OffsetRetention, DefaultOffsetRetention)
	out.GroupSession = cmp.Or(out.GroupSession, DefaultGroupSession)
	out.GroupHeartbeat = cmp.Or(out.GroupHeartbeat, DefaultGroupHeartbeat)
	if out.Memory == nil {
		out.Memory = budget.New("kafka", 2*int64(out.MaxInFlight))
	}
	if out.Now == nil {
		out.Now = time.Now
	}
	out.Logger = cmp.Or(out.Logger, slog.New(slog.DiscardHandler))
	if out.Metrics == nil {
		out.Metrics = noMetrics{}
	}
	return out
}

// Listener configures one net.Listener of a server, see [Server.Serve]. nil and the zero
// Listener mean plain connections without authentication, advertised at the listener's own
// address. It must not change while the listener is served.
type Listener struct {
	// Advertise is the host:port of the broker in answers to clients of this listener. An
	// empty port or 0 means the port of the listener. Default: the listener's address, or,
	// if it listens on all interfaces, the local address of the client's connection.
	Advertise string
	// TLS makes every connection TLS; nil: plain. If it makes the server verify a client's
	// certificate, the subject of the certificate is the client's principal, until the
	// client authenticates with SASL.
	TLS *tls.Config
	// Mechanisms are the SASL mechanisms ([Plain], [ScramSHA256], [ScramSHA512]) of which
	// every client must use one before anything else is served. The users are those of
	// [Server.SetUser]. Default: none, no authentication.
	Mechanisms []string
}

func (l *Listener) validate() error {
	if l == nil {
		return nil
	}
	for _, m := range l.Mechanisms {
		if !slices.Contains(mechanisms, m) {
			return mainstem.Errorf(mainstem.KindInvalid, "kafka", "Listener.Mechanisms has %q: want %s", m, strings.Join(mechanisms, ", "))
		}
	}
	if l.Advertise == "" {
		return nil
	}
	if host, _, err := net.SplitHostPort(l.Advertise); err != nil || host == "" {
		return mainstem.Errorf(mainstem.KindInvalid, "kafka", "Listener.Advertise is %q: want host:port", l.Advertise)
	}
	return nil
}
