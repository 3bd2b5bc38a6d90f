"""The fields of CustomResourceDefinitions, in the notation of `rules.forms`.

What JSON schema allows in more than one form (a schema or a boolean) is kept as it is given.
"""

DEFINITION_FIELDS = """
ExternalDocumentation = description url;
ValidationRule = rule! message messageExpression reason:*string fieldPath optionalOldSelf:*bool;
JSONSchemaProps = id $schema $ref:*string description type format title default:*any maximum:*any
  exclusiveMaximum:bool minimum:*any exclusiveMinimum:bool maxLength:*int64 minLength:*int64 pattern
  maxItems:*int64 minItems:*int64 uniqueItems:bool multipleOf:*any enum:[any] maxProperties:*int64
  minProperties:*int64 required:[string] items:*any allOf:[JSONSchemaProps] oneOf:[JSONSchemaProps]
  anyOf:[JSONSchemaProps] not:*JSONSchemaProps properties:{JSONSchemaProps} additionalProperties:*any
  patternProperties:{JSONSchemaProps} dependencies:{any} additionalItems:*any definitions:{JSONSchemaProps}
  externalDocs:*ExternalDocumentation example:*any nullable:bool x-kubernetes-preserve-unknown-fields:*bool
  x-kubernetes-embedded-resource:bool x-kubernetes-int-or-string:bool x-kubernetes-list-map-keys:[string]
  x-kubernetes-list-type:*string x-kubernetes-map-type:*string x-kubernetes-validations:[ValidationRule];
CustomResourceValidation = openAPIV3Schema:*JSONSchemaProps;
CustomResourceSubresourceScale = specReplicasPath! statusReplicasPath! labelSelectorPath:*string;
CustomResourceSubresources = status:*any scale:*CustomResourceSubresourceScale;
CustomResourceColumnDefinition = name! type! format description priority:int32 jsonPath!;
SelectableField = jsonPath!;
CustomResourceDefinitionVersion = name! served!:bool storage!:bool deprecated:bool deprecationWarning:*string
  schema:*CustomResourceValidation subresources:*CustomResourceSubresources
  additionalPrinterColumns:[CustomResourceColumnDefinition] selectableFields:[SelectableField];
CustomResourceDefinitionNames = plural! singular shortNames:[string] kind! listKind categories:[string];
CustomResourceConversion = strategy! webhook:*any;
CustomResourceDefinitionSpec = group! names!:CustomResourceDefinitionNames scope!
  versions!:[CustomResourceDefinitionVersion] conversion:*CustomResourceConversion preserveUnknownFields:bool;
CustomResourceDefinitionCondition = type! status! lastTransitionTime:Time reason message observedGeneration:int64;
CustomResourceDefinitionStatus = conditions!:[CustomResourceDefinitionCondition]
  acceptedNames!:CustomResourceDefinitionNames storedVersions!:[string] observedGeneration:int64;
CustomResourceDefinition = kind apiVersion metadata:ObjectMeta spec!:CustomResourceDefinitionSpec
  status:CustomResourceDefinitionStatus;
"""
