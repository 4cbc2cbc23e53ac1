package kafkaserver

import (
	"cmp"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem/lease"
	"github.com/mainstemdev/mainstem/server"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka"
)

// DefaultListen is the address on which mainstem serve listens for Kafka clients.
const DefaultListen = "127.0.0.1:9092"

// Config is the configuration of a [Component]. Its fields are settings of a server, see
// [server.Setting], described in their tags. [kafka.Options] explains the limits; 0 means the
// default.
type Config struct {
	Listen           string        `name:"kafka" unit:"host:port" help:"address of the listener for Kafka clients; empty turns it off"`
	Advertise        string        `name:"kafka-advertise" unit:"host:port" help:"address that Kafka clients are told to connect to" default:"the listener's"`
	SASL             string        `name:"kafka-sasl" unit:"mechanisms" help:"plain, scram-sha-256, scram-sha-512: Kafka clients must authenticate by one of these, separated by commas" default:"none"`
	AutoCreate       bool          `name:"kafka-auto-create" help:"create a topic that a Kafka client produces to or asks for"`
	Partitions       int           `name:"kafka-partitions" help:"partitions of a topic whose creator does not say" default:"1"`
	AutoCreateRate   int           `name:"kafka-auto-create-rate" help:"most topics in a minute that are created because Kafka clients name them; clients ask again for others" default:"300"`
	AutoCreateTopics int           `name:"kafka-auto-create-topics" help:"number of topics from which on none is created because a Kafka client names it" default:"10000"`
	MaxRequest       int           `name:"kafka-max-request" unit:"size" help:"most bytes in a request of a Kafka client" default:"100MiB"`
	MaxPending       int           `name:"kafka-max-pending" unit:"size" help:"most bytes of all requests of Kafka clients being read or served, and of all answers to them; both are taken from memory-budget" default:"512MiB"`
	MaxConnections   int           `name:"kafka-max-connections" help:"most connections of Kafka clients" default:"10000"`
	MaxFetch         int           `name:"kafka-max-fetch" unit:"size" help:"most bytes of records in an answer to a Kafka client" default:"64MiB"`
	WriteTimeout     time.Duration `name:"kafka-write-timeout" help:"how long a Kafka client may take nothing of an answer" default:"30s" least:"1s"`
	IdleTimeout      time.Duration `name:"kafka-idle-timeout" help:"how long a connection of a Kafka client may be without a request" default:"10m" least:"1s"`
	OffsetRetention  time.Duration `name:"kafka-offset-retention" help:"how long the offsets of a consumer group without members are kept" default:"168h" least:"1s"`
	GroupSession     time.Duration `name:"kafka-group-session" help:"after how long of silence a member of a KIP-848 consumer group is removed" default:"45s" least:"100ms"`
	GroupHeartbeat   time.Duration `name:"kafka-group-heartbeat" help:"how often members of KIP-848 consumer groups are told to report" default:"5s" least:"100ms"`
	Lease            time.Duration `name:"kafka-lease" help:"how long after its last sign of life a server on NATS or PostgreSQL keeps the lease to serve Kafka, of which a log has one" default:"10s" least:"50ms"`
}

// mechanisms returns the SASL mechanisms of the setting by their names in the protocol.
func (c *Config) mechanisms() []string {
	var out []string
	for name := range strings.SplitSeq(c.SASL, ",") {
		if name = strings.ToUpper(strings.TrimSpace(name)); name != "" {
			out = append(out, name)
		}
	}
	return out
}

// options returns the options of the Kafka server that come from settings.
func (c *Config) options() *kafka.Options {
	return &kafka.Options{
		NoAutoCreate: !c.AutoCreate, Partitions: int32(c.Partitions), MaxRequest: c.MaxRequest,
		AutoCreateRate: c.AutoCreateRate, AutoCreateTopics: c.AutoCreateTopics,
		MaxInFlight: c.MaxPending, MaxConnections: c.MaxConnections, MaxFetch: c.MaxFetch,
		WriteTimeout: c.WriteTimeout, IdleTimeout: c.IdleTimeout, OffsetRetention: c.OffsetRetention,
		GroupSession: c.GroupSession, GroupHeartbeat: c.GroupHeartbeat,
	}
}

// Check implements [server.Configured]. It refuses settings that are out of range, and an
// address that other machines can reach without protection. Nothing is checked if Kafka is off.
func (k *Component) Check(all *server.Config) error {
	c := &k.Config
	if c.Listen == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("kafka is %q: want HOST:PORT, as in %s, or nothing to turn it off", c.Listen, DefaultListen)
	}
	if err := c.check(); err != nil {
		return err
	}
	var missing []string
	if len(c.mechanisms()) == 0 {
		missing = append(missing, "authentication (set kafka-sasl, and make users with mainstem kafka user set)")
	}
	return all.CheckReach("kafka", c.Listen, missing, "to serve everyone on that network")
}

// check refuses settings that are out of range.
func (c *Config) check() error {
	for _, m := range c.mechanisms() {
		switch m {
		case kafka.Plain, kafka.ScramSHA256, kafka.ScramSHA512:
		default:
			return fmt.Errorf("kafka-sasl has %q: want plain, scram-sha-256 or scram-sha-512, separated by commas", strings.ToLower(m))
		}
	}
	if c.Partitions < 0 || c.Partitions > topic.MaxPartitions {
		return fmt.Errorf("kafka-partitions is %d: want 1 to %d", c.Partitions, topic.MaxPartitions)
	}
	if request := cmp.Or(c.MaxRequest, kafka.DefaultMaxRequest); c.MaxPending != 0 && c.MaxPending < request {
		return fmt.Errorf("kafka-max-pending is %d, less than kafka-max-request, %d: a request must fit into it", c.MaxPending, request)
	}
	if c.Lease != 0 && (c.Lease < lease.MinTTL || c.Lease > lease.MaxTTL) {
		return fmt.Errorf("kafka-lease is %v: want %v to %v", c.Lease, lease.MinTTL, lease.MaxTTL)
	}
	if c.Advertise != "" {
		if host, port, err := net.SplitHostPort(c.Advertise); err != nil || host == "" || port == "" {
			return fmt.Errorf("kafka-advertise is %q: want HOST:PORT, by which clients reach this server", c.Advertise)
		}
	}
	return nil
}
