package clusterserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster"
	"github.com/mainstemdev/mainstem/actor/cluster/clusterserver"
	"github.com/mainstemdev/mainstem/actor/cluster/devca"
	"github.com/mainstemdev/mainstem/actor/cluster/inspect"
	"github.com/mainstemdev/mainstem/actor/cluster/link"
	"github.com/mainstemdev/mainstem/actor/cluster/registrar"
	"github.com/mainstemdev/mainstem/internal/servertest"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a server in memory with a component of this configuration.
func open(t *testing.T, c clusterserver.Config) (*server.Server, *clusterserver.Component) {
	t.Helper()
	a := clusterserver.New()
	a.Config = c
	return servertest.Open(t, servertest.Config(a)), a
}

func TestClusterBeyondLoopback(t *testing.T) {
	for _, c := range []struct {
		cluster string
		change  func(*server.Config, *clusterserver.Config)
		wantErr string
	}{
		{cluster: ""},
		{cluster: "a@127.0.0.1:0", change: func(c *server.Config, a *clusterserver.Config) { a.SecretFile = "s" }},
		{cluster: "a@127.0.0.1:0", change: func(c *server.Config, a *clusterserver.Config) { a.Certs = "certs" }},
		{cluster: "a@127.0.0.1:0", wantErr: "without a proof of who belongs to it"},
		{cluster: "a@127.0.0.1:0", change: func(c *server.Config, a *clusterserver.Config) { c.Insecure = true }, wantErr: "without a proof"},
		{cluster: "a@0.0.0.0:4370", change: func(c *server.Config, a *clusterserver.Config) { a.SecretFile = "s" }, wantErr: "which other machines can reach, without TLS"},
		{cluster: "a@:4370", change: func(c *server.Config, a *clusterserver.Config) { a.SecretFile = "s" }, wantErr: "without TLS"},
		{cluster: "a@0.0.0.0:4370", change: func(c *server.Config, a *clusterserver.Config) { a.SecretFile, c.Insecure = "s", true }},
		{cluster: "a@0.0.0.0:4370", change: func(c *server.Config, a *clusterserver.Config) { a.Certs = "certs" }},
		{cluster: "127.0.0.1:0", change: func(c *server.Config, a *clusterserver.Config) { a.Certs = "certs" }, wantErr: "want NAME@HOST:PORT"},
		{cluster: "a/b@127.0.0.1:0", change: func(c *server.Config, a *clusterserver.Config) { a.Certs = "certs" }, wantErr: "want NAME@HOST:PORT"},
		{cluster: "a@127.0.0.1:0", change: func(c *server.Config, a *clusterserver.Config) { a.Certs, a.Peers = "certs", "b" }, wantErr: "cluster-peers has \"b\""},
		{cluster: "a@127.0.0.1:0", change: func(c *server.Config, a *clusterserver.Config) { a.Certs, a.Advertise = "certs", "b" }, wantErr: "cluster-advertise is \"b\""},
		{cluster: "", change: func(c *server.Config, a *clusterserver.Config) { a.Peers = "b=h:1" }, wantErr: "cluster-peers is of no use without cluster"},
	} {
		a, cfg := clusterserver.New(), server.DefaultConfig()
		a.Config.Node, cfg.Components = c.cluster, []server.Component{a}
		if c.change != nil {
			c.change(&cfg, &a.Config)
		}
		err := cfg.Validate()
		if c.wantErr == "" && err != nil || c.wantErr != "" && (err == nil || !strings.Contains(err.Error(), c.wantErr)) {
			t.Errorf("%q: got %v, want %q", c.cluster, err, c.wantErr)
		}
	}
}

// ask returns the status of an answer, and the answer in v.
func ask(t *testing.T, url string, v any) int {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(v); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

// An application joins the cluster of a server, finds it and is found through the
// server's log, and is shown by the server.
func TestTheServerIsANodeOfAClusterAndShowsIt(t *testing.T) {
	certs := filepath.Join(t.TempDir(), "certs")
	if err := devca.Create(certs, "server", "shop"); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("a secret that is long enough\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n, component := open(t, clusterserver.Config{Node: "server@127.0.0.1:0", Certs: certs, SecretFile: secret})
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}

	if got := component.Cluster().Node().Name(); got != "server" {
		t.Errorf("the node is called %q", got)
	}
	shop, err := actor.Open("shop", nil)
	if err != nil {
		t.Fatal(err)
	}
	cert, roots, err := devca.Load(certs, "shop")
	if err != nil {
		t.Fatal(err)
	}
	member, err := cluster.Join(shop, &cluster.Options{
		Listen: "127.0.0.1:0", Secret: []byte("a secret that is long enough"), TLS: &link.TLS{Certificate: cert, Roots: roots},
		Resolver: registrar.New(n.Log(), nil),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(member.Leave(context.Background()), shop.Close()); err != nil {
			t.Error(err)
		}
	}()
	if _, err := inspect.New(member); err != nil {
		t.Fatal(err)
	}
	var tree clusterserver.Tree
	testkit.Eventually(t, "the server to see shop in the log", func() bool {
		return ask(t, n.URL()+clusterserver.TreePath+"?node=shop", &tree) == http.StatusOK
	})
	if tree.Node != "shop" || len(tree.Actors) == 0 {
		t.Errorf("the tree of shop: %+v", tree)
	}
	var nodes clusterserver.Nodes
	if status := ask(t, n.URL()+clusterserver.NodesPath, &nodes); status != http.StatusOK || len(nodes.Nodes) != 2 || nodes.Nodes[1].Name != "shop" {
		t.Errorf("the nodes: status %d, %+v", status, nodes)
	}
	var one inspect.Actor
	if status := ask(t, n.URL()+clusterserver.InspectPath+"?address=shop@0/"+inspect.Name, &one); status != http.StatusOK || one.Address != "shop/"+inspect.Name {
		t.Errorf("one actor: status %d, %+v", status, one)
	}
	for path, want := range map[string]int{
		clusterserver.InspectPath + "?address=shop@0/nobody": http.StatusNotFound,
		clusterserver.InspectPath + "?address=":              http.StatusBadRequest,
		clusterserver.TreePath + "?limit=-1":                 http.StatusBadRequest,
		clusterserver.TreePath + "?node=nowhere":             http.StatusServiceUnavailable,
	} {
		var failed clusterserver.Failure
		if status := ask(t, n.URL()+path, &failed); status != want || failed.Error == "" {
			t.Errorf("%s: status %d, %+v; want %d", path, status, failed, want)
		}
	}
}

func TestAServerOutsideOfClustersSaysSo(t *testing.T) {
	n, a := open(t, clusterserver.Config{})
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a.Cluster() != nil {
		t.Error("the server is a node")
	}
	var failed clusterserver.Failure
	if status := ask(t, n.URL()+clusterserver.TreePath, &failed); status != http.StatusNotImplemented || failed.Kind != mainstem.KindUnsupported.String() {
		t.Errorf("status %d, %+v", status, failed)
	}
	withPassword := strings.Replace(n.URL(), "://", "://user:hunter2@", 1)
	err := clusterserver.Ask(t.Context(), withPassword, clusterserver.TreePath, nil, &server.LogOptions{}, new(clusterserver.Tree))
	if !errors.Is(err, mainstem.ErrUnsupported) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("Ask with a password in the URL: %v", err)
	}
}
