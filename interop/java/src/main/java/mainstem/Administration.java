package mainstem;

import static mainstem.Agent.object;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/**
 * Administration is Kafka's Admin. Each operation is a call of the same name; the objects that
 * it returns are written as JSON, with what a reader of Kafka's own output would look at.
 */
final class Administration implements Agent.Client {
    private final Admin admin;

    Administration(JsonNode args) {
        admin = Admin.create(Agent.config(args));
    }

    @Override
    public Object call(String op, JsonNode a) throws Exception {
        return switch (op) {
            case "createTopics", "listTopics", "describeTopics", "createPartitions", "deleteTopics", "deleteRecords", "listOffsets" -> topics(op, a);
            case "describeConfigs", "incrementalAlterConfigs" -> configs(op, a);
            case "listConsumerGroups", "describeConsumerGroups", "listConsumerGroupOffsets", "alterConsumerGroupOffsets",
                "deleteConsumerGroupOffsets", "removeMembersFromConsumerGroup", "deleteConsumerGroups" -> groups(op, a);
            case "describeProducers", "describeTransactions", "listTransactions", "abortTransaction", "fenceProducers" -> transactions(op, a);
            case "close" -> {
                admin.close(Duration.ofSeconds(5));
                yield null;
            }
            default -> cluster(op, a);
        };
    }

    private Object topics(String op, JsonNode a) throws Exception {
        String topic = a.path("topic").asText();
        TopicPartition partition = new TopicPartition(topic, a.path("partition").asInt());
        switch (op) {
            case "createTopics" -> {
                NewTopic t = new NewTopic(topic, Optional.of(a.get("partitions").asInt()), Optional.empty()).configs(strings(a.get("configs")));
                var made = admin.createTopics(List.of(t));
                made.all().get();
                return object("partitions", made.numPartitions(topic).get(), "replicationFactor", made.replicationFactor(topic).get(),
                    "id", made.topicId(topic).get().toString(), "configs", values(made.config(topic).get().entries()));
            }
            case "listTopics" -> {
                return new TreeMap<>(admin.listTopics().namesToListings().get()).keySet();
            }
            case "describeTopics" -> {
                if (a.has("id")) {
                    Uuid id = Uuid.fromString(a.get("id").asText());
                    return describe(admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds().get().get(id));
                }
                return describe(admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic));
            }
            case "createPartitions" -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(a.get("total").asInt()))).all().get();
            case "deleteTopics" -> {
                if (a.has("id")) {
                    admin.deleteTopics(TopicCollection.ofTopicIds(List.of(Uuid.fromString(a.get("id").asText())))).all().get();
                } else {
                    admin.deleteTopics(List.of(topic)).all().get();
                }
            }
            case "deleteRecords" -> {
                return admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(a.get("before").asLong())))
                    .lowWatermarks().get(partition).get().lowWatermark();
            }
            default -> {
                ListOffsetsResultInfo at = admin.listOffsets(Map.of(partition, spec(a.get("at")))).partitionResult(partition).get();
                return object("offset", at.offset(), "time", at.timestamp());
            }
        }
        return null;
    }

    private static OffsetSpec spec(JsonNode at) {
        return switch (at.asText()) {
            case "earliest" -> OffsetSpec.earliest();
            case "latest" -> OffsetSpec.latest();
            case "max" -> OffsetSpec.maxTimestamp();
            default -> OffsetSpec.forTimestamp(at.asLong());
        };
    }

    private static Object describe(TopicDescription t) {
        List<Object> partitions = new ArrayList<>();
        for (TopicPartitionInfo p : t.partitions()) {
            partitions.add(object("partition", p.partition(), "leader", p.leader().id(), "replicas", ids(p.replicas()), "isr", ids(p.isr())));
        }
        return object("name", t.name(), "id", t.topicId().toString(), "internal", t.isInternal(), "partitions", partitions);
    }

    private static List<Integer> ids(Collection<Node> nodes) {
        return nodes.stream().map(Node::id).toList();
    }

    private Object configs(String op, JsonNode a) throws Exception {
        ConfigResource r = new ConfigResource(ConfigResource.Type.valueOf(a.get("type").asText()), a.get("name").asText());
        if (op.equals("describeConfigs")) {
            return values(admin.describeConfigs(List.of(r)).all().get().get(r).entries());
        }
        AlterConfigOp.OpType how = AlterConfigOp.OpType.valueOf(a.get("op").asText());
        AlterConfigOp alter = new AlterConfigOp(new ConfigEntry(a.get("key").asText(), a.path("value").asText()), how);
        admin.incrementalAlterConfigs(Map.of(r, List.of(alter))).all().get();
        return null;
    }

    private static Map<String, String> values(Collection<ConfigEntry> entries) {
        Map<String, String> all = new TreeMap<>();
        entries.forEach(e -> all.put(e.name(), e.value()));
        return all;
    }

    private Object groups(String op, JsonNode a) throws Exception {
        String group = a.path("group").asText();
        TopicPartition partition = new TopicPartition(a.path("topic").asText(), a.path("partition").asInt());
        switch (op) {
            case "listConsumerGroups" -> {
                return admin.listConsumerGroups().all().get().stream().map(ConsumerGroupListing::groupId).sorted().toList();
            }
            case "describeConsumerGroups" -> {
                return describe(admin.describeConsumerGroups(List.of(group)).all().get().get(group));
            }
            case "listConsumerGroupOffsets" -> {
                Map<String, Long> all = new TreeMap<>();
                admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().forEach((p, o) -> all.put(p.toString(), o.offset()));
                return all;
            }
            case "alterConsumerGroupOffsets" ->
                admin.alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(a.get("offset").asLong()))).all().get();
            case "deleteConsumerGroupOffsets" -> admin.deleteConsumerGroupOffsets(group, Set.of(partition)).all().get();
            case "removeMembersFromConsumerGroup" -> {
                var members = a.has("instance")
                    ? new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove(a.get("instance").asText())))
                    : new RemoveMembersFromConsumerGroupOptions();
                admin.removeMembersFromConsumerGroup(group, members).all().get();
            }
            default -> admin.deleteConsumerGroups(List.of(group)).all().get();
        }
        return null;
    }

    private static Object describe(ConsumerGroupDescription g) {
        List<Object> members = new ArrayList<>();
        g.members().forEach(m -> members.add(object("client", m.clientId(), "instance", m.groupInstanceId().orElse(null),
            "partitions", m.assignment().topicPartitions().stream().map(TopicPartition::toString).sorted().toList())));
        return object("state", g.state().toString(), "simple", g.isSimpleConsumerGroup(), "assignor", g.partitionAssignor(),
            "coordinator", g.coordinator().id(), "members", members);
    }

    private Object transactions(String op, JsonNode a) throws Exception {
        String id = a.path("id").asText();
        TopicPartition partition = new TopicPartition(a.path("topic").asText(), a.path("partition").asInt());
        switch (op) {
            case "describeProducers" -> {
                return admin.describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers().stream()
                    .map(p -> object("sequence", p.lastSequence(), "start", p.currentTransactionStartOffset().isPresent()
                        ? p.currentTransactionStartOffset().getAsLong() : null)).toList();
            }
            case "describeTransactions" -> {
                var t = admin.describeTransactions(List.of(id)).description(id).get();
                return object("state", t.state().toString(), "partitions", t.topicPartitions().stream().map(TopicPartition::toString).sorted().toList());
            }
            case "listTransactions" -> {
                return admin.listTransactions().all().get().stream().map(TransactionListing::transactionalId).sorted().toList();
            }
            case "abortTransaction" -> {
                var state = admin.describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers().stream()
                    .filter(p -> p.currentTransactionStartOffset().isPresent()).findFirst().orElseThrow();
                admin.abortTransaction(new org.apache.kafka.clients.admin.AbortTransactionSpec(partition, state.producerId(),
                    (short) state.producerEpoch(), state.coordinatorEpoch().orElse(0))).all().get();
            }
            default -> admin.fenceProducers(List.of(id)).all().get();
        }
        return null;
    }

    private Object cluster(String op, JsonNode a) throws Exception {
        TopicPartition partition = new TopicPartition(a.path("topic").asText(), a.path("partition").asInt());
        switch (op) {
            case "describeCluster" -> {
                var c = admin.describeCluster();
                return object("nodes", ids(c.nodes().get()), "controller", c.controller().get().id(), "id", c.clusterId().get());
            }
            case "describeFeatures" -> {
                Map<String, Integer> finalized = new TreeMap<>();
                admin.describeFeatures().featureMetadata().get().finalizedFeatures().forEach((name, range) -> finalized.put(name, (int) range.maxVersionLevel()));
                return finalized;
            }
            case "describeMetadataQuorum" -> {
                return admin.describeMetadataQuorum().quorumInfo().get().leaderId();
            }
            case "describeLogDirs" -> {
                Map<String, Object> all = new TreeMap<>();
                admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1).forEach((dir, d) ->
                    d.replicaInfos().forEach((p, info) -> all.put(p.toString(), info.size())));
                return all;
            }
            case "describeReplicaLogDirs" -> {
                var r = new TopicPartitionReplica(partition.topic(), partition.partition(), 1);
                return admin.describeReplicaLogDirs(List.of(r)).all().get().get(r).getCurrentReplicaLogDir() != null;
            }
            case "electLeaders" -> {
                return admin.electLeaders(ElectionType.PREFERRED, Set.of(partition)).partitions().get().get(partition)
                    .map(e -> e.getClass().getSimpleName()).orElse("elected");
            }
            case "listPartitionReassignments" -> {
                return admin.listPartitionReassignments().reassignments().get().size();
            }
            case "alterPartitionReassignments" ->
                admin.alterPartitionReassignments(Map.of(partition, Optional.of(new NewPartitionReassignment(List.of(a.get("broker").asInt()))))).all().get();
            default -> {
                return security(op, a);
            }
        }
        return null;
    }

    private Object security(String op, JsonNode a) throws Exception {
        String user = a.path("user").asText();
        switch (op) {
            case "alterUserScramCredentials" -> {
                var info = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096);
                admin.alterUserScramCredentials(List.of(a.has("password")
                    ? new UserScramCredentialUpsertion(user, info, a.get("password").asText())
                    : new UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_256))).all().get();
            }
            case "describeUserScramCredentials" -> {
                Map<String, Object> all = new TreeMap<>();
                admin.describeUserScramCredentials().all().get().forEach((name, d) -> all.put(name, d.credentialInfos().stream()
                    .map(c -> c.mechanism().mechanismName()).toList()));
                return all;
            }
            case "describeClientQuotas" -> {
                return admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get().size();
            }
            case "alterClientQuotas" -> admin.alterClientQuotas(List.of(new ClientQuotaAlteration(
                new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, user)),
                List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1000.0))))).all().get();
            case "describeAcls" -> {
                return admin.describeAcls(AclBindingFilter.ANY).values().get().size();
            }
            case "createAcls" -> admin.createAcls(List.of(new AclBinding(new ResourcePattern(ResourceType.TOPIC, "t", PatternType.LITERAL),
                new AccessControlEntry("User:" + user, "*", AclOperation.READ, AclPermissionType.ALLOW)))).all().get();
            case "deleteAcls" -> {
                return admin.deleteAcls(List.of(AclBindingFilter.ANY)).all().get().size();
            }
            case "describeDelegationToken" -> {
                return admin.describeDelegationToken().delegationTokens().get().size();
            }
            default -> throw new IllegalArgumentException("the admin client cannot " + op);
        }
        return null;
    }

    private static Map<String, String> strings(JsonNode node) {
        Map<String, String> m = new HashMap<>();
        if (node != null) {
            node.fields().forEachRemaining(f -> m.put(f.getKey(), f.getValue().asText()));
        }
        return m;
    }
}
