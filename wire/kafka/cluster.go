package kafka

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net"
	"strconv"
	"sync"

	"github.com/mainstemdev/mainstem"
)

// ClusterSpace holds the cluster's ID.
const ClusterSpace = "kafka.cluster"

var clusterIDKey = []byte("id")

// clusterID remembers the ID that names the log to Kafka's clients. It is looked up,
// and for a log that has none made up, when the first client asks: a server without
// clients writes nothing.
type clusterID struct {
	sync.Mutex
	id string
}

func (c *clusterID) get(ctx context.Context, log mainstem.Log) (string, error) {
	c.Lock()
	defer c.Unlock()
	var err error
	if c.id == "" {
		c.id, err = findClusterID(ctx, log)
	}
	return c.id, err
}

func findClusterID(ctx context.Context, log mainstem.Log) (string, error) {
	for {
		rec, err := log.Get(ctx, ClusterSpace, clusterIDKey)
		if err == nil {
			return string(rec.Value), nil
		}
		if !errors.Is(err, mainstem.ErrNotFound) {
			return "", err
		}
		var id [16]byte
		_, _ = rand.Read(id[:]) // it never fails
		b := mainstem.NewBatch()
		b.Ensure(ClusterSpace, mainstem.Policy{History: 1})
		b.IfAbsent(ClusterSpace, clusterIDKey)
		b.Put(ClusterSpace, clusterIDKey, []byte(base64.RawURLEncoding.EncodeToString(id[:])))
		if _, err := log.Commit(ctx, b); err != nil && !errors.Is(err, mainstem.ErrConflict) {
			return "", err
		}
	}
}

// advertised returns the host and port that answers to the client of c name.
func (c *conn) advertised() (string, int32) {
	listening, portText, err := net.SplitHostPort(c.on.Addr().String())
	if err != nil {
		return c.on.Addr().String(), 0 // not TCP: a test's pipe
	}
	host, port := listening, portText
	if ip := net.ParseIP(listening); ip != nil && ip.IsUnspecified() {
		host, _, _ = net.SplitHostPort(c.nc.LocalAddr().String())
	}
	if c.as.Advertise != "" {
		host, port, _ = net.SplitHostPort(c.as.Advertise)
		if port == "0" || port == "" {
			port = portText
		}
	}
	n, _ := strconv.ParseUint(port, 10, 16)
	return host, int32(n)
}
