package sarama

import "github.com/xdg-go/scram"

// conversation is SCRAM, which sarama leaves to its users.
type conversation struct {
	mechanism string
	c         *scram.ClientConversation
}

// Begin begins it.
func (c *conversation) Begin(user, password, authzID string) error {
	hash := scram.SHA256
	if c.mechanism == "SCRAM-SHA-512" {
		hash = scram.SHA512
	}
	client, err := hash.NewClient(user, password, authzID)
	if err == nil {
		c.c = client.NewConversation()
	}
	return err
}

// Step answers the server.
func (c *conversation) Step(challenge string) (string, error) { return c.c.Step(challenge) }

// Done reports that nothing is left to say.
func (c *conversation) Done() bool { return c.c.Done() }
