package kafkaserver_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/server"
	"github.com/mainstemdev/mainstem/wire/kafka/kafkaserver"
)

func TestSettings(t *testing.T) {
	full := func(c *server.Config, k *kafkaserver.Config) {
		c.TLSCert, c.TLSKey, k.SASL = "cert", "key", "scram-sha-512, plain"
	}
	for _, c := range []struct {
		kafka   string
		change  change
		wantErr string
	}{
		{kafka: ""},
		{kafka: "127.0.0.1:0"},
		{kafka: "localhost:9092"},
		{kafka: "0.0.0.0:9092", wantErr: "without TLS (set tls-cert and tls-key) and authentication (set kafka-sasl"},
		{kafka: ":9092", change: func(c *server.Config, k *kafkaserver.Config) { k.SASL = "plain" }, wantErr: "without TLS (set tls-cert and tls-key);"},
		{kafka: "192.0.2.1:9092", change: func(c *server.Config, k *kafkaserver.Config) { c.TLSCert, c.TLSKey = "cert", "key" }, wantErr: "without authentication"},
		{kafka: "0.0.0.0:9092", change: full},
		{kafka: "0.0.0.0:9092", change: func(c *server.Config, k *kafkaserver.Config) { c.Insecure = true }},
		{kafka: "9092", wantErr: "kafka is \"9092\": want HOST:PORT"},
		{kafka: "127.0.0.1:1", change: func(c *server.Config, k *kafkaserver.Config) { k.SASL = "gssapi" }, wantErr: "kafka-sasl has \"gssapi\""},
		{kafka: "127.0.0.1:1", change: func(c *server.Config, k *kafkaserver.Config) { k.Advertise = "broker" }, wantErr: "kafka-advertise is \"broker\""},
		{kafka: "127.0.0.1:1", change: func(c *server.Config, k *kafkaserver.Config) { k.Partitions = 1 << 33 }, wantErr: "kafka-partitions"},
		{kafka: "127.0.0.1:1", change: func(c *server.Config, k *kafkaserver.Config) { k.MaxPending = 1 << 20 }, wantErr: "kafka-max-pending is 1048576"},
		{kafka: "127.0.0.1:1", change: func(c *server.Config, k *kafkaserver.Config) { k.Lease = 2 * time.Hour }, wantErr: "kafka-lease is 2h0m0s"},
	} {
		k, cfg := kafkaserver.New(), server.DefaultConfig()
		k.Config.Listen, cfg.Components = c.kafka, []server.Component{k}
		if c.change != nil {
			c.change(&cfg, &k.Config)
		}
		err := cfg.Validate()
		switch {
		case c.wantErr == "" && err != nil:
			t.Errorf("%q: %v", c.kafka, err)
		case c.wantErr != "" && (err == nil || !strings.Contains(err.Error(), c.wantErr)):
			t.Errorf("%q: got %v, want %q", c.kafka, err, c.wantErr)
		}
	}
}
