# SPDX-License-Identifier: MIT
"""
A Lightning script as people write them, for programs.py: an image folder, v2 transforms, a
sanity check, validation after each epoch.  Prints losses and the final weights to the last bit.
"""

import logging

import lightning
import torch
from torchvision import datasets
from torchvision.transforms import v2

import programs_model


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = programs_model.network()

    def loss(self, batch, what):
        images, labels = batch
        loss = torch.nn.functional.cross_entropy(self.network(images), labels)
        print(what, float(loss.detach()).hex())
        return loss

    def training_step(self, batch, _):
        return self.loss(batch, "loss")

    def validation_step(self, batch, _):
        self.loss(batch, "validation")

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


class Pictures(lightning.LightningDataModule):
    def __init__(self, options):
        super().__init__()
        self.options = options

    def setup(self, stage):
        last = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True),
                v2.Normalize(mean=[0.5, 0.5, 0.5], std=[0.25, 0.25, 0.25])]
        self.training = datasets.ImageFolder(self.options.data + "/train", v2.Compose([
            v2.RandomResizedCrop(96), v2.RandomHorizontalFlip(),
            v2.ColorJitter(0.2, 0.2, 0.2), *last]))
        self.validation = datasets.ImageFolder(self.options.data + "/val", v2.Compose([
            v2.Resize(112), v2.CenterCrop(96), *last]))

    def loader(self, data, shuffle):
        return torch.utils.data.DataLoader(
            data, batch_size=16, shuffle=shuffle, num_workers=self.options.workers,
            persistent_workers=True)

    def train_dataloader(self):
        return self.loader(self.training, True)

    def val_dataloader(self):
        return self.loader(self.validation, False)


def main():
    options = programs_model.parser().parse_args()
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    lightning.seed_everything(0)  # the same weights at first, whatever the seed
    model = Classifier()
    lightning.seed_everything(options.seed, workers=True)
    trainer = lightning.Trainer(
        accelerator="cpu", max_epochs=options.epochs, logger=False, log_every_n_steps=1,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(model, datamodule=Pictures(options))
    print("weights", programs_model.digest(model))


if __name__ == "__main__":
    main()
