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

// ClusterSpace is the space of the cluster ID: key "id", value the ID as text.
const ClusterSpace = "kafka.cluster"

var clusterIDKey = []byte("id")

// clusterID caches the cluster ID, which names the log to Kafka's clients. It is read when the
// first client asks for it, and if the log has none, a random UUID is written then.
type clusterID struct {
	sync.Mutex
	id string // "" until it was read. It does not change afterwards
}

// get returns the cluster ID: a UUID in URL-safe base64 without padding.
func (c *clusterID) get(ctx context.Context, log mainstem.Log) (string, error) {
	c.Lock()
	defer c.Unlock()
	var err error
	if c.id == "" {
		c.id, err = findClusterID(ctx, log)
	}
	return c.id, err
}

// findClusterID reads the cluster ID, or writes one if there is none. Of several that write at
// the same time, the first wins and the others read its ID.
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

// advertised returns the host and port of the broker in answers to the client, see
// [Listener].Advertise.
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
