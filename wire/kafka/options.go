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
	// NodeID is the ID under which the server names itself, as a broker, to clients.
	// Default [DefaultNodeID].
	NodeID int32
	// Sources show what the log holds besides topics as topics that clients can read:
	// package eventtopic event stores, package alert/kafkatopic tables of alerts. They
	// stay the caller's, who closes them after Shutdown. Default: none.
	Sources []partition.Source
	// NoAutoCreate refuses to create a topic because a client produces to it or asks
	// for it. By default such a topic is created, as with Kafka's
	// auto.create.topics.enable.
	NoAutoCreate bool
	// AutoCreateRate is how many such topics are created in a minute, by all clients
	// together; so many may also come at once. Clients ask again for those beyond.
	// Default [DefaultAutoCreateRate].
	AutoCreateRate int
	// AutoCreateTopics is the number of topics from which on none is created because a
	// client asks for it. Default [DefaultAutoCreateTotal].
	AutoCreateTopics int
	// Partitions is how many partitions a topic gets whose creator does not say.
	// Default [DefaultPartitions].
	Partitions int32
	// MaxRequest bounds the size of a request in bytes. Default [DefaultMaxRequest].
	MaxRequest int
	// MaxInFlight bounds the bytes of all requests that are being read or served, together
	// with what decoding them takes; beyond it connections wait their turn, and are closed
	// when they have waited for WriteTimeout. By itself it also bounds the memory of the
	// answers that clients have yet to read. Default [DefaultMaxInFlight].
	MaxInFlight int
	// Memory is what the memory of both is taken from, so that all servers of a process
	// share one limit. Of a request no more is accepted than it has. Default: one of the
	// server's own, as large as both.
	Memory *budget.Budget
	// MaxConnections bounds the connections; those beyond are closed at once.
	// Default [DefaultMaxConnections].
	MaxConnections int
	// MaxFetch bounds the bytes of record batches in an answer to a fetch, whatever
	// the client asks for. Default [DefaultMaxFetch].
	MaxFetch int
	// WriteTimeout is how long a client may take nothing of an answer.
	// Default [DefaultWriteTimeout].
	WriteTimeout time.Duration
	// IdleTimeout is how long a connection may be without a request.
	// Default [DefaultIdleTimeout].
	IdleTimeout time.Duration
	// AuthTimeout is how long a client may take to shake hands (TLS) and to
	// authenticate (SASL). Default [DefaultAuthTimeout].
	AuthTimeout time.Duration
	// OffsetRetention is how long the offsets of an empty group are kept.
	// Default [DefaultOffsetRetention].
	OffsetRetention time.Duration
	// GroupSession is after how long of silence a member of a KIP-848 group is removed,
	// GroupHeartbeat how often it is told to report, which must be less. Defaults
	// [DefaultGroupSession], [DefaultGroupHeartbeat]. Members of classic groups choose theirs.
	GroupSession   time.Duration
	GroupHeartbeat time.Duration
	// Now is the clock. Default [time.Now].
	Now func() time.Time
	// Logger receives what clients do wrong and what the log could not do.
	// Default: discards.
	Logger *slog.Logger
	// Metrics receives what the server does. Default: none.
	Metrics Metrics
}

// Validate reports the first field that is out of range.
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

// Listener says how clients reach the server through one net.Listener, see
// [Server.Serve]. nil means plain connections without authentication, advertised
// at the listener's own address.
type Listener struct {
	// Advertise is the host:port that clients are told to connect to. A port of 0
	// means the port listened on. Default: the listener's address; a client of a
	// listener on all interfaces is told the address it already reached.
	Advertise string
	// TLS makes every connection TLS. With ClientAuth, the subject of a client's
	// certificate is who the client is.
	TLS *tls.Config
	// Mechanisms are the SASL mechanisms by one of which every client must authenticate
	// before anything else is served: [Plain], [ScramSHA256], [ScramSHA512]. The users
	// are those of [Server.SetUser]. None: no authentication.
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
