package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/readfile"
	"github.com/mainstemdev/mainstem/server"
)

// Variables that hold the password for a Kafka cluster, or the name of a file with it.
const (
	passwordVariable     = "MAINSTEM_KAFKA_PASSWORD"
	passwordFileVariable = "MAINSTEM_KAFKA_PASSWORD_FILE"
)

// kafkaFlags say which Kafka cluster a command works on, if any.
type kafkaFlags struct {
	bootstrap    []string
	tls          bool
	mechanism    string
	user         string
	passwordFile string
}

const kafkaHelp = `

With --bootstrap it speaks to a Kafka cluster, any of them, instead of a log. The
password for --user is in --password-file, $MAINSTEM_KAFKA_PASSWORD_FILE or
$MAINSTEM_KAFKA_PASSWORD.`

func (k *kafkaFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&k.bootstrap, "bootstrap", nil, "`host:port` of brokers of a Kafka cluster, separated by commas")
	f.BoolVar(&k.tls, "tls", false, "speak TLS with the cluster; --tls-ca names authorities to trust")
	f.StringVar(&k.mechanism, "sasl-mechanism", "", "`mechanism` to log in by: plain, scram-sha-256 or scram-sha-512 (default scram-sha-512 with --user)")
	f.StringVar(&k.user, "user", "", "`name` of a user of the cluster")
	f.StringVar(&k.passwordFile, "password-file", "", "`file` that holds the user's password")
}

// named reports whether the command line names a cluster. Flags that need one do not
// go without it.
func (k *kafkaFlags) named(cmd *cobra.Command) (bool, error) {
	if len(k.bootstrap) > 0 {
		if cmd.Flags().Changed("log") {
			return false, usageError{cmd, errors.New("--log and --bootstrap exclude each other")}
		}
		return true, nil
	}
	for _, name := range []string{"bootstrap", "tls", "sasl-mechanism", "user", "password-file", "group", "uncommitted", "replicas"} {
		if cmd.Flags().Changed(name) {
			return false, usageError{cmd, fmt.Errorf("--%s is of no use without --bootstrap", name)}
		}
	}
	return false, nil
}

// options returns how the cluster is to be reached.
func (k *kafkaFlags) options(m *Main) ([]kgo.Opt, error) {
	o := []kgo.Opt{
		kgo.SeedBrokers(k.bootstrap...), kgo.ClientID("mainstem"), kgo.SoftwareNameAndVersion("mainstem", server.Version()),
		kgo.RequestRetries(5), kgo.UnknownTopicRetries(2),
	}
	secure, err := k.tlsConfig(m)
	if err != nil {
		return nil, err
	}
	if secure != nil {
		o = append(o, kgo.DialTLSConfig(secure))
	}
	if k.user == "" && k.mechanism == "" {
		return o, nil
	}
	if k.user == "" {
		return nil, errors.New("--sasl-mechanism needs --user")
	}
	password, err := k.password(m)
	if err != nil {
		return nil, err
	}
	switch strings.ToLower(k.mechanism) {
	case "plain":
		if secure == nil && !m.flags.insecure {
			if there := k.beyondLoopback(); there != "" {
				return nil, fmt.Errorf("plain shows the password to everybody between here and %s: add --tls, take scram-sha-512, or set --insecure", there)
			}
		}
		return append(o, kgo.SASL(plain.Auth{User: k.user, Pass: password}.AsMechanism())), nil
	case "scram-sha-256":
		return append(o, kgo.SASL(scram.Auth{User: k.user, Pass: password}.AsSha256Mechanism())), nil
	case "", "scram-sha-512":
		return append(o, kgo.SASL(scram.Auth{User: k.user, Pass: password}.AsSha512Mechanism())), nil
	}
	return nil, fmt.Errorf("--sasl-mechanism is %q: want plain, scram-sha-256 or scram-sha-512", k.mechanism)
}

func (k *kafkaFlags) tlsConfig(m *Main) (*tls.Config, error) {
	ca := first(m.flags.tlsCA, m.variable("MAINSTEM_TLS_CA"))
	if !k.tls {
		if m.flags.tlsCA != "" {
			return nil, errors.New("--tls-ca is of no use without --tls")
		}
		return nil, nil
	}
	c, err := server.ClientTLS(ca)
	if c == nil && err == nil {
		c = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return c, err
}

// password reads the password from where others do not see it: not from a flag, which
// the list of processes would show.
func (k *kafkaFlags) password(m *Main) (string, error) {
	if file := first(k.passwordFile, m.variable(passwordFileVariable)); file != "" {
		b, err := readfile.All(file, readfile.Secret)
		if err != nil {
			return "", fmt.Errorf("password file: %w", err)
		}
		if p := strings.TrimRight(string(b), "\r\n"); p != "" {
			return p, nil
		}
		return "", fmt.Errorf("the password file %s is empty", file)
	}
	if p := m.variable(passwordVariable); p != "" {
		return p, nil
	}
	return "", fmt.Errorf("--user needs a password: name a file with --password-file, or set %s", passwordVariable)
}

// beyondLoopback returns a broker that is not on this machine, "" if all are.
func (k *kafkaFlags) beyondLoopback() string {
	for _, address := range k.bootstrap {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			host = address
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return address
		}
	}
	return ""
}

// withKafka connects to the cluster of the command line, runs do, and disconnects.
func (m *Main) withKafka(cmd *cobra.Command, k *kafkaFlags, more []kgo.Opt, do func(ctx context.Context, cl *kgo.Client) error) error {
	o, err := k.options(m)
	if err != nil {
		return usageError{cmd, err}
	}
	ctx, cancel, err := m.context(cmd.Context())
	if err != nil {
		return err
	}
	defer cancel()
	cl, err := kgo.NewClient(append(o, more...)...)
	if err != nil {
		return usageError{cmd, err}
	}
	defer cl.CloseAllowingRebalance() // a group must not wait for a command that is over
	if err := cl.Ping(ctx); err != nil {
		return k.unreachable(ctx, err)
	}
	return kafkaError(ctx, do(ctx, cl))
}

// unreachable explains why there is no connection.
func (k *kafkaFlags) unreachable(ctx context.Context, err error) error {
	err = kafkaError(ctx, err)
	var e *mainstem.Error
	if errors.As(err, &e) && e.Kind == mainstem.KindInternal {
		e.Kind, e.Op = mainstem.KindUnavailable, "connect to "+strings.Join(k.bootstrap, ",")
		e.Hint = "is a Kafka broker listening there"
		if !k.tls {
			e.Hint += ", without TLS (else add --tls)"
		}
		e.Hint += "?"
	}
	return err
}

// kafkaKinds say which kind an error of Kafka's protocol is of; the others are Internal.
var kafkaKinds = []struct {
	kind mainstem.Kind
	errs []error
}{
	{mainstem.KindNotFound, []error{kerr.UnknownTopicOrPartition, kerr.UnknownTopicID}},
	{mainstem.KindExists, []error{kerr.TopicAlreadyExists}},
	{mainstem.KindInvalid, []error{
		kerr.MessageTooLarge, kerr.InvalidRecord, kerr.InvalidTopicException, kerr.InvalidPartitions, kerr.InvalidConfig,
		kerr.InvalidReplicationFactor, kerr.InvalidRequest, kerr.OffsetOutOfRange, kerr.InvalidTimestamp, kerr.PolicyViolation,
	}},
	{mainstem.KindDenied, []error{
		kerr.SaslAuthenticationFailed, kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.GroupAuthorizationFailed,
		kerr.UnsupportedSaslMechanism,
	}},
	{mainstem.KindUnavailable, []error{kerr.KafkaStorageError, kerr.LeaderNotAvailable, kerr.RequestTimedOut, kerr.NotEnoughReplicas, kgo.ErrRecordTimeout, kgo.ErrRecordRetries}},
}

// kafkaError makes err an error of the contract, so that statuses and messages are
// those of all other commands.
func kafkaError(ctx context.Context, err error) error {
	var e *mainstem.Error
	var u usageError
	var f failed
	switch {
	case err == nil, errors.As(err, &e), errors.As(err, &u), errors.As(err, &f):
		return err
	case ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, kgo.ErrClientClosed)):
		return mainstem.Ended(ctx, "kafka", time.Time{}, "the Kafka server")
	}
	for _, k := range kafkaKinds {
		for _, known := range k.errs {
			if errors.Is(err, known) {
				return &mainstem.Error{Kind: k.kind, Op: "kafka", Err: err}
			}
		}
	}
	return &mainstem.Error{Kind: mainstem.KindInternal, Op: "kafka", Err: err}
}
