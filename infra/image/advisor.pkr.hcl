# An image of EC2 with all that the start script of `--on aws` would install otherwise: an instance of
# it fetches the advisor's own files from the bucket, and nothing from PyPI. From the root of the
# repository, in each region that measures:
#
#   python -m advisor.infra.aws.guest.software > infra/image/software.tar.gz
#   packer init infra/image
#   packer build -var region=us-east-1 infra/image
#   advisor sweep run --on aws --image ami-.. ..
#
# Build it again when the requirements change; an older image works too, as the start script installs
# what is missing. `packer validate` takes it; it was never built.
variable "region" {
  type        = string
  description = "Where the image is made, and measures."
  default     = "us-east-1"
}

variable "instance_type" {
  type        = string
  description = "What it is made on; it needs no GPU."
  default     = "m6i.xlarge"
}

variable "root_gib" {
  type        = number
  description = "Of the disk it boots from: AWS's driver image, torch with CUDA and their libraries."
  default     = 120
}

locals {
  version = formatdate("YYYYMMDD-hhmm", timestamp())
}

source "amazon-ebs" "advisor" {
  region        = var.region
  instance_type = var.instance_type
  ssh_username  = "ubuntu"
  ami_name      = "advisor-${local.version}"
  # The image that is launched without --image, too: infra/aws/regions.py.
  source_ami_filter {
    filters = {
      name                = "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04) *"
      architecture        = "x86_64"
      root-device-type    = "ebs"
      virtualization-type = "hvm"
    }
    owners      = ["amazon"]
    most_recent = true
  }
  launch_block_device_mappings {
    device_name           = "/dev/sda1"
    volume_size           = var.root_gib
    volume_type           = "gp3"
    iops                  = 3000
    throughput            = 125
    delete_on_termination = true
  }
  tags = {
    Name = "advisor-${local.version}"
  }
}

build {
  sources = ["source.amazon-ebs.advisor"]

  provisioner "file" {
    source      = "${path.root}/software.tar.gz"
    destination = "/tmp/software.tar.gz"
  }

  provisioner "shell" {
    execute_command = "sudo bash '{{ .Path }}'"
    script          = "${path.root}/install.sh"
  }
}
